// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// The volumes of a node inside an SGLang pod.
const (
	SocketVolume = "peercache-socket"
	TLSVolume    = "peercache-tls"
)

// The sidecar's ports bear our name: a Service of the user's may look for a port named http.
const (
	sidecarPeer = "peercache-peer"
	sidecarHTTP = "peercache-http"
)

// InPod is a node that runs inside an SGLang pod: what it is told, and what the pod must bring for it. It follows
// from the cluster by the same builders as the cluster's own nodes.
type InPod struct {
	// Group that the node belongs to.
	Group string
	// Settings are all options of peercached, for a node inside the SGLang process.
	Settings []Setting
	// Sidecar runs peercached with the same settings. It mounts SocketVolume, and TLSVolume where there is one.
	Sidecar corev1.Container
	// TLS is the volume with the certificate, or nil, and TLSMount where the settings look for it.
	TLS      *corev1.Volume
	TLSMount corev1.VolumeMount
	// Claims belong to the pod, and Resources.Claims of Sidecar to whoever runs the node.
	Claims []corev1.PodResourceClaim
	// Networks of the rails.
	Networks []NetworkSelection
	// Devices are the extended resources of the rails.
	Devices corev1.ResourceList
	// Memory of the node, and Overhead besides its pool.
	Memory   v1alpha1.MemorySpec
	Overhead corev1.ResourceList
	// RDMA says that it pins memory.
	RDMA bool
	// Ports that a sidecar listens at.
	Ports []int32
}

// NodeInPod plans the node of a group inside a pod of the given namespace. Rails only count where pages travel by
// RDMA: for TCP an SGLang pod needs no device, and no network but that of discovery.interface.
func NodeInPod(
	cluster *v1alpha1.PeerCacheCluster, groupName, podNamespace string, facts Facts,
) (*InPod, *Problem) {
	cluster = cluster.DeepCopy()
	groups := Groups(cluster.Spec)
	if problem := check(cluster.Spec, groups); problem != nil {
		return nil, problem
	}
	group := findGroup(groups, groupName)
	group.overrideFor(&cluster.Spec)
	rdma := group.rdma(cluster.Spec)
	if !rdma {
		group.Rails = group.railsOn(cluster.Spec.Discovery.Interface)
		cluster.Spec.Transport = v1alpha1.TransportTCP
	}
	elsewhere := podNamespace != cluster.Namespace
	if problem := checkInPod(cluster, group, elsewhere); problem != nil {
		return nil, problem
	}
	image := cluster.Spec.Image
	if image == "" {
		image = facts.DataplaneImage
	}

	spec := cluster.Spec
	sidecar := buildSidecar(cluster, group, image)
	if problem := mergeSidecar(&sidecar, spec.PodTemplate); problem != nil {
		return nil, problem
	}
	node := &InPod{
		Group:    group.Name,
		Settings: append(settings(cluster), nodeSettings(spec, group, sidecarID)...),
		Sidecar:  sidecar,
		Networks: group.selections(),
		Devices:  group.devicesOf(),
		Memory:   group.Memory(spec),
		Overhead: corev1.ResourceList{corev1.ResourceMemory: group.resources(spec).MemoryOverhead},
		RDMA:     rdma,
		Ports:    []int32{spec.Discovery.Port, spec.Monitoring.Port},
	}
	node.Claims, _ = group.claims()
	if elsewhere {
		for i := range node.Networks {
			if node.Networks[i].Namespace == "" {
				node.Networks[i].Namespace = cluster.Namespace
			}
		}
	}
	if tls := spec.Security.TLS; tls != nil {
		// The container that mounts it may run as any user, and nobody else sees it.
		node.TLS, node.TLSMount = new(tlsVolume(TLSVolume, *tls, 0o444)), tlsMount(TLSVolume)
		node.Sidecar.VolumeMounts = append(node.Sidecar.VolumeMounts, node.TLSMount)
	}
	return node, nil
}

// findGroup takes the first of groups of one name in several pools: at admission nobody knows the machine.
func findGroup(groups []Group, name string) Group {
	for _, group := range groups {
		if group.Name == name {
			return group
		}
	}
	return groups[0]
}

// overrideFor gives the group what spec.injection says of its nodes inside SGLang pods.
func (g *Group) overrideFor(spec *v1alpha1.PeerCacheClusterSpec) {
	spec.Memory, spec.Resources = g.Memory(*spec), g.resources(*spec)
	if spec.Injection.Memory != nil {
		spec.Memory = *spec.Injection.Memory
	}
	if own := spec.Injection.Resources; own != nil {
		spec.Resources = v1alpha1.ResourcesSpec{CPU: own.CPU, MemoryOverhead: own.MemoryOverhead}
	}
	g.Pool = nil // what it said is in spec now
}

// checkInPod finds what the cluster's own nodes can have, and a node in an SGLang pod cannot.
func checkInPod(cluster *v1alpha1.PeerCacheCluster, group Group, elsewhere bool) *Problem {
	name := cluster.Namespace + "/" + cluster.Name
	problem := func(reason, format string, args ...any) *Problem {
		return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case group.onHostNetwork():
		return problem("HostNetworkRails", "rails of group %q of PeerCacheCluster %s are attached by HostNetwork, which only its own "+
			"nodes can use: write injection.mode: Node, or choose another attachment", group.Name, name)
	case elsewhere && cluster.Spec.Security.TLS != nil:
		return problem("TLSElsewhere", "PeerCacheCluster %s uses TLS, and a pod can mount Secrets of its own namespace only: create the "+
			"pod in namespace %s, or write injection.mode: Node", name, cluster.Namespace)
	case elsewhere && len(group.railsWith(v1alpha1.AttachmentDRA)) > 0:
		return problem("ClaimsElsewhere", "rails of group %q of PeerCacheCluster %s come from ResourceClaimTemplates, which a pod finds "+
			"in its own namespace only: create the pod in namespace %s, or write injection.mode: Node", group.Name, name, cluster.Namespace)
	}
	for _, rail := range group.Rails {
		if len(rail.IPs) > 0 || rail.MAC != "" {
			return problem("AddressShared", "rail %q of PeerCacheCluster %s asks for addresses of its own, which only one pod can have: "+
				"remove its ips and mac and let the network's IPAM choose, or write injection.mode: Node", rail.Name, name)
		}
	}
	return nil
}

// sidecarID is unique in all namespaces; a pod that keeps its name, as in a StatefulSet, keeps its place.
const sidecarID = "$(POD_NAMESPACE).$(POD_NAME)"

// buildSidecar makes of a node's container a native sidecar. It has no say in when SGLang starts, nor in whether
// the pod is ready: SGLang serves without its cache, too, and attaches when there is one. So it has no startup
// probe, which the kubelet would wait for, for ever while the sidecar crashes. All settings are in its
// environment, because a ConfigMap of the cluster's namespace may be out of reach.
func buildSidecar(cluster *v1alpha1.PeerCacheCluster, group Group, image string) corev1.Container {
	spec := cluster.Spec
	c := buildContainer(spec, group, image)
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	c.Args = nil
	c.Env = []corev1.EnvVar{
		fromField("POD_NAMESPACE", "metadata.namespace"), fromField("POD_NAME", "metadata.name"), fromField("POD_IP", "status.podIP"),
	}
	c.Env = append(c.Env, variables(settings(cluster))...)
	c.Env = append(c.Env, variables(nodeSettings(spec, group, sidecarID))...)
	c.Ports[0].Name, c.Ports[1].Name = sidecarPeer, sidecarHTTP
	// Liveness gives it as long to allocate its pool as that probe gives a node of the cluster.
	c.LivenessProbe.FailureThreshold = c.StartupProbe.PeriodSeconds * c.StartupProbe.FailureThreshold / c.LivenessProbe.PeriodSeconds
	c.LivenessProbe.HTTPGet.Port.StrVal = sidecarHTTP
	c.StartupProbe, c.ReadinessProbe = nil, nil
	c.VolumeMounts = []corev1.VolumeMount{{Name: SocketVolume, MountPath: SocketDir}}
	_, c.Resources.Claims = group.claims()
	// The socket lies in a directory of the pod that anyone may write to, so only pinned memory needs root.
	c.SecurityContext.RunAsNonRoot = new(!group.rdma(spec))
	if !group.rdma(spec) {
		c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup = nil, nil
	}
	return c
}
