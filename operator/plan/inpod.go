// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/peercache/peercache/api/v1alpha1"
)

// The volumes of a node inside an SGLang pod.
const (
	SocketVolume = "peercache-socket"
	TLSVolume    = inPodPrefix + volumeTLS
	TokenVolume  = inPodPrefix + volumeToken
	TenantVolume = inPodPrefix + volumeTenantSecret

	inPodPrefix = "peercache-"
)

// The names of the ports of a sidecar. The prefix avoids names such as http, which a Service of the user may select.
const (
	sidecarPeer = "peercache-peer"
	sidecarHTTP = "peercache-http"
)

// InPod is a node that runs inside an SGLang pod: its settings, and what it needs from the pod. The builders are those of the
// cluster's own nodes.
type InPod struct {
	// Group is the group of the node.
	Group string
	// Settings are all options of peercached for a node inside the SGLang process.
	Settings []Setting
	// Sidecar runs peercached with the same settings. It mounts SocketVolume and Secrets.
	Sidecar corev1.Container
	// Secrets are the Secrets that the settings name.
	Secrets []MountedSecret
	// Claims are the ResourceClaims of the pod. The container that runs the node uses the Resources.Claims of Sidecar.
	Claims []corev1.PodResourceClaim
	// Networks are the networks of the rails.
	Networks []NetworkSelection
	// Devices are the extended resources of the rails.
	Devices corev1.ResourceList
	// Memory is the memory of the node, and Overhead what it needs besides its pool.
	Memory   v1alpha1.MemorySpec
	Overhead corev1.ResourceList
	// RDMA is true where the node pins memory.
	RDMA bool
	// Ports are the ports at which a sidecar listens.
	Ports []int32
}

// NodeInPod plans the node of a group inside a pod of a namespace. Rails matter only for RDMA: with TCP, an SGLang pod needs no
// device, and no network except that of discovery.interface.
func NodeInPod(
	cluster *v1alpha1.PeerCacheCluster, groupName, podNamespace string, facts Facts,
) (*InPod, *Problem) {
	cluster = cluster.DeepCopy()
	groups := Groups(cluster.Spec)
	if problem := check(cluster.Spec, groups); problem != nil {
		return nil, problem
	}
	group := findGroup(groups, groupName)
	group.applyInjection(&cluster.Spec)
	rdma := group.rdma(cluster.Spec)
	if !rdma {
		group.Rails = group.railsOn(cluster.Spec.Discovery.Interface)
		cluster.Spec.Transport = v1alpha1.TransportTCP
	}
	otherNamespace := podNamespace != cluster.Namespace
	if problem := checkInPod(cluster, group, otherNamespace); problem != nil {
		return nil, problem
	}
	image := cluster.Spec.Image
	if image == "" {
		image = facts.DataplaneImage
	}
	if otherNamespace { // the owner of a cluster chooses what runs in its own namespace only
		image, cluster.Spec.ImagePullPolicy = facts.DataplaneImage, corev1.PullIfNotPresent
	}

	spec := cluster.Spec
	sidecar := buildSidecar(cluster, group, image)
	own := sidecar.Env
	if problem := mergeSidecar(&sidecar, spec.PodTemplate); problem != nil {
		return nil, problem
	}
	if otherNamespace && spec.Injection.Mode == v1alpha1.InjectionSidecar && !equality.Semantic.DeepEqual(own, sidecar.Env) {
		return nil, environmentProblem(cluster)
	}
	if problem := literalProblem(cluster, own, sidecar.Env); problem != nil {
		return nil, problem
	}
	node := &InPod{
		Group:    group.Name,
		Settings: append(settings(cluster), nodeSettings(spec, group, sidecarID)...),
		Sidecar:  sidecar,
		Networks: group.selections(),
		Devices:  group.devicesOf(),
		Memory:   group.Memory(spec),
		Overhead: corev1.ResourceList{corev1.ResourceMemory: group.overhead(spec)},
		RDMA:     rdma,
		Ports:    []int32{spec.Discovery.Port, spec.Monitoring.Port},
	}
	node.Claims, _ = group.claims()
	if otherNamespace {
		for i := range node.Networks {
			if node.Networks[i].Namespace == "" {
				node.Networks[i].Namespace = cluster.Namespace
			}
		}
	}
	for _, m := range secretMounts(cluster) {
		// The container may run as any user, and no other container sees the file.
		secret := m.in(inPodPrefix+m.volume, 0o444)
		node.Secrets = append(node.Secrets, secret)
		node.Sidecar.VolumeMounts = append(node.Sidecar.VolumeMounts, secret.Mount)
	}
	return node, nil
}

// environmentProblem refuses an environment in a pod of another namespace: variables could read every Secret there, and load
// code.
func environmentProblem(cluster *v1alpha1.PeerCacheCluster) *Problem {
	return &Problem{Reason: "EnvironmentElsewhere", Message: fmt.Sprintf("PeerCacheCluster %s/%s gives its members an environment "+
		"(spec.podTemplate), which a pod of another namespace does not take: remove that part of podTemplate, create the pod in "+
		"namespace %s, or write injection.mode: Node", cluster.Namespace, cluster.Name, cluster.Namespace)}
}

// literalProblem refuses a value that podTemplate gives a variable of a sidecar. Whoever reaches the operator's webhook could ask it
// for the sidecar; where the value is taken from, a Secret or ConfigMap, tells nothing.
func literalProblem(cluster *v1alpha1.PeerCacheCluster, own, merged []corev1.EnvVar) *Problem {
	for _, variable := range merged {
		isOwn := func(v corev1.EnvVar) bool { return v.Name == variable.Name }
		if cluster.Spec.Injection.Mode == v1alpha1.InjectionSidecar && variable.Value != "" && !slices.ContainsFunc(own, isOwn) {
			return &Problem{Reason: "EnvironmentLiteral", Message: fmt.Sprintf("PeerCacheCluster %s/%s gives its members a value for "+
				"variable %s (spec.podTemplate), which a sidecar does not take: write the value into a Secret or ConfigMap, and name that "+
				"by valueFrom, or write injection.mode: Node", cluster.Namespace, cluster.Name, variable.Name)}
		}
	}
	return nil
}

// findGroup returns the first group of the name. At admission, the machine and so the pool is not known.
func findGroup(groups []Group, name string) Group {
	for _, group := range groups {
		if group.Name == name {
			return group
		}
	}
	return groups[0]
}

// applyInjection puts the memory and resources of spec.injection, or else of the group, into spec. A node inside an SGLang pod
// has no disk.
func (g *Group) applyInjection(spec *v1alpha1.PeerCacheClusterSpec) {
	spec.Memory, spec.Resources = g.Memory(*spec), g.resources(*spec)
	if spec.Injection.Memory != nil {
		spec.Memory = *spec.Injection.Memory
	}
	if own := spec.Injection.Resources; own != nil {
		spec.Resources = *own
	}
	spec.Disk = nil
	g.Pool = nil // spec has its values now
}

// checkInPod returns the problem where the cluster's own nodes could run, but a node in an SGLang pod could not.
func checkInPod(cluster *v1alpha1.PeerCacheCluster, group Group, otherNamespace bool) *Problem {
	name := cluster.Namespace + "/" + cluster.Name
	problem := func(reason, format string, args ...any) *Problem {
		return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case group.onHostNetwork():
		return problem("HostNetworkRails", "rails of group %q of PeerCacheCluster %s are attached by HostNetwork, which only its own "+
			"members can use: write injection.mode: Node, or choose another attachment", group.Name, name)
	case otherNamespace && cluster.Spec.Security.TLS != nil:
		return problem("TLSElsewhere", "PeerCacheCluster %s uses TLS, and a pod can mount Secrets of its own namespace only: create the "+
			"pod in namespace %s, or write injection.mode: Node", name, cluster.Namespace)
	case otherNamespace && len(group.railsWith(v1alpha1.AttachmentDRA)) > 0:
		return problem("ClaimsElsewhere", "rails of group %q of PeerCacheCluster %s come from ResourceClaimTemplates, which a pod finds "+
			"in its own namespace only: create the pod in namespace %s, or write injection.mode: Node", group.Name, name, cluster.Namespace)
	case otherNamespace && tokenSecret(cluster) != "":
		return problem("TokenElsewhere", "members of PeerCacheCluster %s prove a token to each other, and a pod can mount Secrets of its own "+
			"namespace only: create the pod in namespace %s, or write injection.mode: Node", name, cluster.Namespace)
	case otherNamespace && tenantSecret(cluster) != "":
		return problem("TenantsElsewhere", "members of PeerCacheCluster %s keep the pages of namespaces apart by a secret, and a pod can mount "+
			"Secrets of its own namespace only: create the pod in namespace %s, or write injection.mode: Node, or sharing: Cluster", name,
			cluster.Namespace)
	}
	for _, rail := range group.Rails {
		if attached := rail.Attached(); len(attached.IPs) > 0 || attached.MAC != "" {
			return problem("AddressShared", "rail %q of PeerCacheCluster %s asks for addresses of its own, which only one pod can have: "+
				"remove its ips and mac and let the network's IPAM choose, or write injection.mode: Node", rail.Name, name)
		}
	}
	return nil
}

// sidecarID is unique in all namespaces. A pod that keeps its name, as in a StatefulSet, keeps its place in the ring.
const sidecarID = "$(POD_NAMESPACE).$(POD_NAME)"

// buildSidecar turns the container of a node into a native sidecar. It must not delay the start of SGLang or the readiness of
// the pod: SGLang also serves without its cache, and attaches later. So it has no startup probe, for which the kubelet would
// wait even while the sidecar crashes. All settings are in the environment, because a pod of another namespace cannot mount the
// cluster's ConfigMap.
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
	// The liveness probe allows as much time to allocate the pool as the startup probe of a cluster's own node.
	c.LivenessProbe.FailureThreshold = c.StartupProbe.PeriodSeconds * c.StartupProbe.FailureThreshold / c.LivenessProbe.PeriodSeconds
	c.LivenessProbe.HTTPGet.Port.StrVal = sidecarHTTP
	c.StartupProbe, c.ReadinessProbe = nil, nil
	c.VolumeMounts = []corev1.VolumeMount{{Name: SocketVolume, MountPath: SocketDir}}
	_, c.Resources.Claims = group.claims()
	// The socket directory is an emptyDir that every user may write to, so only pinned memory needs root.
	c.SecurityContext.RunAsNonRoot = new(!group.rdma(spec))
	if !group.rdma(spec) {
		c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup = nil, nil
	}
	return c
}
