// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/preflight"
)

// drainOptions are those of drain and undrain.
type drainOptions struct {
	out     format
	wait    bool
	timeout time.Duration
	dryRun  bool
}

func (o *drainOptions) addTo(command *cobra.Command, until string) {
	o.out.addTo(command)
	flags := command.Flags()
	flags.BoolVar(&o.wait, "wait", false, "return when "+until+", and say meanwhile how far it is")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long --wait waits at most; the label stays as it is then")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only say what would happen")
}

func (p *plugin) drainCommand() *cobra.Command {
	var options drainOptions
	command := &cobra.Command{
		Use:   "drain NODE",
		Short: "Takes PeerCache off a Kubernetes node for maintenance, and says what that costs",
		Long: "Labels a Kubernetes node with " + v1alpha1.LabelDrain + "=" + v1alpha1.DrainNow + ". The PeerCache nodes of all " +
			"PeerCacheClusters leave it, in\nthe order that a leaving node has, and stay away until `undrain`. SGLang pods stay, and go on " +
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
		Use:   "undrain NODE",
		Short: "Brings PeerCache back to a Kubernetes node",
		Args:  oneMachine,
		RunE: func(command *cobra.Command, args []string) error {
			return p.undrain(command.Context(), args[0], options)
		},
	}
	options.addTo(command, "all serve again")
	return command
}

func oneMachine(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the name of one Kubernetes node, and there are %d: see kubectl get nodes", c.CommandPath(), len(args))
	}
	return nil
}

func (p *plugin) drain(ctx context.Context, name string, o drainOptions) error {
	a, machine, found, err := p.lookAtMachine(ctx, name)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no PeerCacheCluster has a node on %s, so there is nothing to drain: see kubectl get pods -A -o wide -l "+
			"app.kubernetes.io/name=peercache,app.kubernetes.io/component=node", name)
	}
	r := &drainReport{Machine: name, Action: actionDrain, DryRun: o.dryRun, Members: p.describe(ctx, a, found)}
	r.Already = preflight.IsDrained(machine)
	r.Cordoned = machine.Spec.Unschedulable
	return p.carryOut(ctx, a, machine, found, r, o, v1alpha1.DrainNow)
}

func (p *plugin) undrain(ctx context.Context, name string, o drainOptions) error {
	a, machine, found, err := p.lookAtMachine(ctx, name)
	if err != nil {
		return err
	}
	r := &drainReport{Machine: name, Action: actionUndrain, DryRun: o.dryRun, Members: p.describe(ctx, a, found)}
	_, labelled := machine.Labels[v1alpha1.LabelDrain]
	r.Already = !labelled
	return p.carryOut(ctx, a, machine, found, r, o, nil)
}

// carryOut says what will happen, lets it happen, and waits for it.
func (p *plugin) carryOut(
	ctx context.Context, a *access, machine *corev1.Node, found []resident, r *drainReport, o drainOptions, label any,
) error {
	asText := o.out == ""
	if asText {
		r.before(p.Out)
	}
	if !r.Already && !o.dryRun {
		if err := a.label(ctx, machine, label); err != nil {
			return err
		}
	}
	var failure error
	if o.wait && !o.dryRun {
		failure = p.await(ctx, a, found, r, o.timeout)
		r.Complete = failure == nil
	}
	if asText {
		if failure == nil {
			r.after(p.Out)
		}
		return failure
	}
	if err := o.out.print(p.Out, r); err != nil {
		return err
	}
	return failure
}

// lookAtMachine finds a Kubernetes node, and who of PeerCache belongs there.
func (p *plugin) lookAtMachine(ctx context.Context, name string) (*access, *corev1.Node, []resident, error) {
	a, err := p.connect()
	if err != nil {
		return nil, nil, nil, err
	}
	machine := &corev1.Node{}
	if err := a.Get(ctx, client.ObjectKey{Name: name}, machine); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil, nil, fmt.Errorf("there is no Kubernetes node %s: see kubectl get nodes; members are called machine.group, "+
				"and the machine is meant here", name)
		}
		return nil, nil, nil, explain(err, "reading Kubernetes node "+name)
	}
	found, err := a.residents(ctx, machine)
	return a, machine, found, err
}

// label sets the drain label, or takes it away where value is nil.
func (a *access) label(ctx context.Context, machine *corev1.Node, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LabelDrain: value}}})
	if err != nil {
		return err
	}
	if err := a.patch(ctx, machine, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return explain(err, "labelling Kubernetes node "+machine.Name)
	}
	return nil
}
