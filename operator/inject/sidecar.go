// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/plan"
)

// addSidecar adds the container that runs the pod's node, or returns a reason.
func addSidecar(pod *corev1.Pod, facts Facts, node plan.InPod) (reason string) {
	if pod.Spec.HostNetwork {
		return "the pod uses the network of its machine, where the sidecar's ports may be taken: remove hostNetwork, or " +
			"write injection.mode: Node"
	}
	if reason := addVolume(pod, sidecarSockets()); reason != "" {
		return reason
	}
	switch have := findContainer(pod, node.Sidecar.Name); {
	case have != nil && !mountsAt(have, plan.SocketVolume, plan.SocketDir):
		return reasons.ContainerTaken(node.Sidecar.Name)
	case have != nil:
		return ""
	}
	if reason := portTaken(pod, node.Ports); reason != "" {
		return reason
	}
	sidecar := *node.Sidecar.DeepCopy()
	if !node.RDMA {
		runAsNonRoot(pod, sidecar.SecurityContext, facts)
	}
	facts.Admission.raise(&sidecar, false)
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, sidecar)
	addPullSecrets(pod, facts)
	return ""
}

// labelGroup sets the group label, as the cluster's own pods have it: for the metrics, and because the NetworkPolicy lets
// pods with a node inside reach the others. No selector uses this label alone. A label of the user stays.
func labelGroup(pod *corev1.Pod, group string) {
	if _, taken := pod.Labels[v1alpha1.LabelGroup]; taken {
		return
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[v1alpha1.LabelGroup] = group
}

// portTaken returns the reason where a container uses a port of the sidecar: the containers of a pod share its network.
func portTaken(pod *corev1.Pod, ports []int32) (reason string) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			for _, port := range c.Ports {
				if slices.Contains(ports, port.ContainerPort) && port.Protocol != corev1.ProtocolUDP && port.Protocol != corev1.ProtocolSCTP {
					return "container " + strconv.Quote(c.Name) + " has port " + strconv.Itoa(int(port.ContainerPort)) +
						", which the sidecar needs: change it, or discovery.port or monitoring.port of the cluster"
				}
			}
		}
	}
	return ""
}
