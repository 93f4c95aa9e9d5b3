// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/kubectl/discover"
	"github.com/peercache/peercache/operator/machine"
	"github.com/peercache/peercache/operator/plan"
)

const (
	// discoverContainer is the container that describes its machine.
	discoverContainer = "machine"
	// discoverUser is any user but root: the files that are read are everybody's.
	discoverUser int64 = 65532
	// maxDescription bounds the description of one machine in bytes.
	maxDescription = int64(1 << 20)
)

// askMachines runs a pod on each machine that says what the machine has, and asks the API server what hands out its ports.
func (p *plugin) askMachines(
	ctx context.Context, names []string, selector map[string]string, flags discoverFlags,
) ([]machine.Machine, discover.Kubernetes, error) {
	var kubernetes discover.Kubernetes
	a, err := p.connect()
	if err != nil {
		return nil, kubernetes, fmt.Errorf("%w; --from works without an API server", err)
	}
	if names, err = machineNames(ctx, a, names, selector); err != nil {
		return nil, kubernetes, err
	}
	template, err := discoverPod(ctx, a, flags.image)
	if err != nil {
		return nil, kubernetes, err
	}
	var pods []*corev1.Pod
	defer func() {
		// Also after an interrupt. What cannot be deleted has ended, and is named.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		for _, pod := range pods {
			if err := a.remove(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				_, _ = fmt.Fprintf(p.ErrOut, "pod %s stays: %v: delete it\n", client.ObjectKeyFromObject(pod), err)
			}
		}
	}()
	for _, name := range names {
		pod := template.DeepCopy()
		pod.Spec.NodeName = name
		if err := a.create(ctx, pod); err != nil {
			return nil, kubernetes, explainCreate(err, pod)
		}
		pods = append(pods, pod)
	}
	if err := p.awaitPods(ctx, a, pods, flags.timeout); err != nil {
		return nil, kubernetes, err
	}
	machines, err := descriptions(ctx, a, pods)
	if err == nil {
		kubernetes = askKubernetes(ctx, a, names)
	}
	return machines, kubernetes, err
}

// machineNames returns the names of the Kubernetes nodes with the labels, unless names are given.
func machineNames(ctx context.Context, a *access, names []string, selector map[string]string) ([]string, error) {
	if len(names) > 0 {
		return names, nil
	}
	var list corev1.NodeList
	if err := a.List(ctx, &list, client.MatchingLabels(selector)); err != nil {
		return nil, explain(err, "listing the Kubernetes nodes")
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no Kubernetes node has the labels %s: kubectl label node NODE..., name nodes, or write --selector",
			metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector}))
	}
	return names, nil
}

// discoverPod returns the pod without its machine. It has the operator's image, namespace and credentials for the registry.
// An image that is given runs in the namespace of the command line.
func discoverPod(ctx context.Context, a *access, image string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "peercache-discover-", Namespace: a.namespace,
			Labels: map[string]string{plan.LabelName: plan.AppName, plan.LabelComponent: "discover"},
		},
		Spec: corev1.PodSpec{
			HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: discoverContainer, Image: image, Command: []string{"/usr/local/bin/peercache-operator"}, Args: []string{"machine"},
				SecurityContext: &corev1.SecurityContext{
					RunAsUser: new(discoverUser), RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false),
					ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
			}},
		},
	}
	if image != "" {
		return pod, nil
	}
	var deployments appsv1.DeploymentList
	labels := client.MatchingLabels{plan.LabelName: plan.AppName, plan.LabelComponent: "operator"}
	if err := a.List(ctx, &deployments, labels); err != nil {
		return nil, fmt.Errorf("%w, or name the operator's image by --image", explain(err, "looking for the operator"))
	}
	if len(deployments.Items) == 0 {
		return nil, errors.New("the operator is not installed: install it first, or name its image by --image")
	}
	operator := deployments.Items[0]
	pod.Namespace = operator.Namespace
	pod.Spec.ImagePullSecrets = operator.Spec.Template.Spec.ImagePullSecrets
	pod.Spec.Containers[0].Image = operator.Spec.Template.Spec.Containers[0].Image
	return pod, nil
}

func explainCreate(err error, pod *corev1.Pod) error {
	err = explain(err, fmt.Sprintf("making a pod on %s in namespace %s", machineName(pod), pod.Namespace))
	if strings.Contains(err.Error(), "violates PodSecurity") {
		return fmt.Errorf("%w; it sees the machine's network, which takes the level privileged: name a namespace that has it "+
			"by -n, with --image, or run the command on a machine with --from /", err)
	}
	return err
}

// awaitPods waits until all pods have ended, and reads them anew.
func (p *plugin) awaitPods(ctx context.Context, a *access, pods []*corev1.Pod, timeout time.Duration) error {
	for end := p.now().Add(timeout); ; {
		var waiting []string
		for _, pod := range pods {
			if ended(pod) {
				continue
			}
			if err := a.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return explain(err, "reading pod "+pod.Name)
			}
			if !ended(pod) {
				waiting = append(waiting, machineName(pod)+" "+doing(pod))
			}
		}
		if len(waiting) == 0 {
			return nil
		}
		if !p.now().Before(end) {
			return fmt.Errorf("pods have not ended after %s: %s: name only healthy machines, or raise --timeout",
				timeout, strings.Join(waiting, "; "))
		}
		if err := p.sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// doing says what a pod does that has not ended.
func doing(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			return strings.TrimRight(fmt.Sprintf("waits (%s: %s)", waiting.Reason, waiting.Message), ": )") + ")"
		}
	}
	return fmt.Sprintf("is %s", cmp.Or(pod.Status.Phase, corev1.PodPending))
}

// descriptions reads what the pods printed.
func descriptions(ctx context.Context, a *access, pods []*corev1.Pod) ([]machine.Machine, error) {
	type result struct {
		machine machine.Machine
		err     error
	}
	results := eachPod(pods, func(pod *corev1.Pod) (r result) {
		text, err := a.pods.logs(ctx, pod, corev1.PodLogOptions{
			Container: discoverContainer, TailLines: new(int64(1)), LimitBytes: new(maxDescription),
		})
		switch {
		case pod.Status.Phase == corev1.PodFailed:
			r.err = fmt.Errorf("%s: the pod failed: %s", machineName(pod),
				cmp.Or(strings.TrimSpace(string(text)), pod.Status.Message, pod.Status.Reason, "it reported no more"))
		case err != nil:
			r.err = err
		default:
			if err := json.Unmarshal(text, &r.machine); err != nil {
				r.err = fmt.Errorf("%s: reading the output of its pod: %w: is its image the operator's, of this release?", machineName(pod), err)
			}
			r.machine.Name = machineName(pod)
		}
		return r
	})
	var machines []machine.Machine
	var failures []error
	for _, r := range results {
		machines, failures = append(machines, r.machine), append(failures, r.err)
	}
	return machines, errors.Join(failures...)
}
