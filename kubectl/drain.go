// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/preflight"
)

// drainOptions are the flags of drain and undrain.
type drainOptions struct {
	out     format
	wait    bool
	timeout time.Duration
	dryRun  bool
}

func (o *drainOptions) addTo(command *cobra.Command, until string) {
	o.out.addTo(command)
	flags := command.Flags()
	flags.BoolVar(&o.wait, "wait", false, "return when "+until+", and print each step meanwhile")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "limit of --wait; the label stays when it is over")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would happen, and change nothing")
}

func (p *plugin) drainCommand() *cobra.Command {
	var options drainOptions
	command := &cobra.Command{
		Use:     "drain NODE",
		GroupID: groupOperate,
		Short:   "Take the members off a Kubernetes node for maintenance",
		Example: "  kubectl peercache drain gpu-7 --wait",
		Long: "Label a Kubernetes node with " + v1alpha1.LabelDrain + "=" + v1alpha1.DrainNow + ". The PeerCache members of all " +
			"PeerCacheClusters leave it, in\nthe order that a leaving member has, and stay away until `undrain`. SGLang pods stay, and run " +
			"without cache;\n`kubectl drain` evicts them. New ones do not start there meanwhile, so cordon it first.",
		Args: oneMachine,
		RunE: func(command *cobra.Command, args []string) error { return p.drain(command.Context(), args[0], options) },
	}
	options.addTo(command, "all have left")
	return command
}

func (p *plugin) undrainCommand() *cobra.Command {
	var options drainOptions
	command := &cobra.Command{
		Use:     "undrain NODE",
		GroupID: groupOperate,
		Short:   "Bring the members back to a Kubernetes node",
		Example: "  kubectl peercache undrain gpu-7 --wait",
		Args:    oneMachine,
		RunE: func(command *cobra.Command, args []string) error {
			return p.undrain(command.Context(), args[0], options)
		},
	}
	options.addTo(command, "all serve again")
	return command
}

// oneMachine accepts the one argument of drain and undrain.
var oneMachine = exactlyOne("the name of one Kubernetes node", "see kubectl get nodes")

func (p *plugin) drain(ctx context.Context, name string, o drainOptions) error {
	a, machine, found, err := p.readMachine(ctx, name)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no PeerCacheCluster has a member on %s, so there is nothing to drain: see kubectl get pods -A -o wide -l "+
			"app.kubernetes.io/name=peercache,app.kubernetes.io/component=node", name)
	}
	r := &drainReport{Machine: name, Action: actionDrain, DryRun: o.dryRun, Members: p.describeMembers(ctx, a, found)}
	r.Already = preflight.IsDrained(machine)
	r.Cordoned = machine.Spec.Unschedulable
	return p.apply(ctx, a, machine, found, r, o, v1alpha1.DrainNow)
}

func (p *plugin) undrain(ctx context.Context, name string, o drainOptions) error {
	a, machine, found, err := p.readMachine(ctx, name)
	if err != nil {
		return err
	}
	r := &drainReport{Machine: name, Action: actionUndrain, DryRun: o.dryRun, Members: p.describeMembers(ctx, a, found)}
	_, labelled := machine.Labels[v1alpha1.LabelDrain]
	r.Already = !labelled
	return p.apply(ctx, a, machine, found, r, o, nil)
}

// apply prints what will happen, sets the label, and waits for the members with --wait.
func (p *plugin) apply(
	ctx context.Context, a *access, machine *corev1.Node, found []localMember, r *drainReport, o drainOptions, label any,
) error {
	asText := o.out == ""
	if asText {
		r.writeBefore(p.Out)
	}
	if !r.Already && !o.dryRun {
		if err := a.label(ctx, machine, label); err != nil {
			return err
		}
	}
	var waitErr error
	if o.wait && !o.dryRun {
		waitErr = p.waitForMembers(ctx, a, found, r, o.timeout)
		r.Complete = waitErr == nil
	}
	if asText {
		if waitErr == nil {
			r.writeAfter(p.Out)
		}
		return waitErr
	}
	if err := o.out.print(p.Out, r); err != nil {
		return err
	}
	return waitErr
}

// readMachine returns a Kubernetes node and the PeerCache members that belong on it.
func (p *plugin) readMachine(ctx context.Context, name string) (*access, *corev1.Node, []localMember, error) {
	a, err := p.connect()
	if err != nil {
		return nil, nil, nil, err
	}
	machine := &corev1.Node{}
	if err := a.Get(ctx, client.ObjectKey{Name: name}, machine); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil, nil, fmt.Errorf("there is no Kubernetes node %s: see kubectl get nodes; a member is called "+
				"machine.group, and this command takes the machine", name)
		}
		return nil, nil, nil, explain(err, "reading Kubernetes node "+name)
	}
	found, err := a.localMembers(ctx, machine)
	return a, machine, found, err
}

// label sets the drain label, or removes it where value is nil.
func (a *access) label(ctx context.Context, machine *corev1.Node, value any) error {
	patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LabelDrain: value}}}
	if err := a.patchWith(ctx, machine, patch); err != nil {
		return explain(err, "labelling Kubernetes node "+machine.Name)
	}
	return nil
}
