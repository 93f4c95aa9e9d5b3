// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PeerCacheCluster is one peer-to-peer KV cache for SGLang's HiCache.
//
// The operator runs one pod per chosen Kubernetes node and group: a member of the
// cache. A node is always one of Kubernetes. Every member gives a pool of
// memory, holds a part of the directory, and serves the SGLang pods on its
// machine through a Unix socket. There is no master. SGLang pods in use carry
// the label peercache.io/inject: <name of this object>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=peercacheclusters,singular=peercachecluster,shortName=pcc,categories=all
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="Whether the cache serves: every group has a ready member"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether every member serves with the current spec"
// +kubebuilder:printcolumn:name="Members",type=string,JSONPath=`.status.members`,description="Ready members / desired members"
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.memory.pool`,description="Memory for pages of every member"
// +kubebuilder:printcolumn:name="Transport",type=string,JSONPath=`.spec.transport`,description="How pages travel between members"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is ready or not"
// +kubebuilder:printcolumn:name="Capacity",type=string,priority=1,JSONPath=`.status.capacity`,description="Memory for pages of all members that serve"
// +kubebuilder:printcolumn:name="Disk",type=string,priority=1,JSONPath=`.status.disk.capacity`,description="Room for pages on the drives of all members"
// +kubebuilder:printcolumn:name="Rails",type=integer,priority=1,JSONPath=`.status.rails.ready`,description="Rails of running members that are up"
// +kubebuilder:printcolumn:name="Drained",type=integer,priority=1,JSONPath=`.status.drainedMembers`,description="Members that are away because their machine is drained"
// +kubebuilder:printcolumn:name="Active",type=integer,priority=1,JSONPath=`.status.activeMembers`,description="Active members that the members see"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name becomes part of Service and DaemonSet names: write at most 40 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
type PeerCacheCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state. A change of the members' pods takes effect by a rolling
	// restart. It takes spec.update.maxUnavailable members of each group at a time.
	// docs/rollout.md lists the fields. A change that removes all members of a group, or
	// a folder of disk.hostPath, waits for the annotation peercache.io/confirm-loss.
	// +required
	Spec PeerCacheClusterSpec `json:"spec"`

	// status is what the operator sees. It is written by the operator only.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status PeerCacheClusterStatus `json:"status,omitzero"`
}

// PeerCacheClusterList is a list of PeerCacheCluster.
//
// +kubebuilder:object:root=true
type PeerCacheClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PeerCacheCluster `json:"items"`
}

// PeerCacheClusterSpec is the desired state.
//
// +kubebuilder:validation:XValidation:rule="self.transport != 'RDMA' || (has(self.rails) && size(self.rails) > 0)",message="transport RDMA needs at least one entry in rails: add the network port(s) to use, or write transport: TCP"
// +kubebuilder:validation:XValidation:rule="self.transport == 'TCP' || !has(self.rails) || self.rails.all(r, r.attachment != 'Network')",message="attachment Network brings no RDMA device: write transport: TCP, or for each of these rails the attachment that brings one, such as SharedDevicePlugin"
// +kubebuilder:validation:XValidation:rule="self.transport == 'TCP' || !has(self.rails) || self.rails.all(r, r.attachment != 'HostNetwork' || (has(r.hostNetwork) && has(r.hostNetwork.device)))",message="hostNetwork.device is missing: attachment HostNetwork uses an RDMA device of the machine; write its name, for example hostNetwork: {device: mlx5_0}, or, for pages that travel over the machine's network by TCP, transport: TCP"
// +kubebuilder:validation:XValidation:rule="!has(self.rails) || self.rails.all(r, !has(r.numaNode) || (self.layout == 'PerNUMA' && !has(r.group)))",message="rails[].numaNode chooses the group under layout: PerNUMA for a rail that names no group: remove numaNode, or remove the rail's group and use layout: PerNUMA"
// +kubebuilder:validation:XValidation:rule="!has(self.rails) || self.layout != 'PerNUMA' || self.rails.all(r, has(r.group) || has(r.numaNode)) || self.rails.all(r, has(r.group) || !has(r.numaNode))",message="under layout: PerNUMA either every rail without a group names its numaNode or none does: add the missing rails[].numaNode (see /sys/class/net/<interface>/device/numa_node)"
// +kubebuilder:validation:XValidation:rule="self.transport != 'RDMA' || !has(self.nodePools) || self.nodePools.all(p, has(p.rails) && size(p.rails) > 0)",message="transport RDMA needs rails on every node pool: name them in nodePools[].rails, or write transport: Auto, which uses RDMA between members with rails and TCP otherwise"
// +kubebuilder:validation:XValidation:rule="!has(self.nodePools) || self.nodePools.all(p, !has(p.rails) || p.rails.all(n, has(self.rails) && self.rails.exists(r, r.name == n)))",message="nodePools[].rails names a rail that the cluster does not have: add it to rails, or remove the name from the pool"
// +kubebuilder:validation:XValidation:rule="!has(self.provision) || !has(self.provision.devicePlugin) || self.provision.devicePlugin.resources.all(x, has(self.rails) && self.rails.exists(r, r.name == x.rail && r.attachment == 'SharedDevicePlugin'))",message="provision.devicePlugin.resources[].rail must be a rail with attachment SharedDevicePlugin: correct its name, or the rail's attachment"
// +kubebuilder:validation:XValidation:rule="!has(self.provision) || !has(self.provision.networks) || self.provision.networks.all(n, has(self.rails) && self.rails.exists(r, r.name == n.rail && has(r.network) && !r.network.name.contains('/')))",message="provision.networks[].rail must be a rail with a network in this namespace: write rails[].network.name without a namespace, for example network: {name: rail0}"
// +kubebuilder:validation:XValidation:rule="!has(self.provision) || !has(self.provision.networks) || !has(self.rails) || self.provision.networks.all(n, self.rails.all(r, r.name != n.rail || (r.attachment == 'SRIOV') == (n.type == 'SRIOV')))",message="provision.networks[].type SRIOV belongs to rails with attachment SRIOV, and the other types to other attachments: correct one of them"
// +kubebuilder:validation:XValidation:rule="self.discovery.port != self.monitoring.port",message="discovery.port and monitoring.port must differ: leave both out to get 31998 and 31997"
type PeerCacheClusterSpec struct {
	// mode is what the operator does with this object. Apply puts it into effect.
	// Plan creates, changes and deletes nothing: status.plan shows what Apply would
	// do, and the conditions NetworksResolved and DevicesAvailable what is missing.
	// Running members continue to run.
	// +optional
	// +kubebuilder:default=Apply
	Mode Mode `json:"mode,omitempty"`

	// image of the data plane (peercached). Empty means the image that was
	// released with the operator, which suits most users: data plane and
	// operator are then upgraded together.
	// Example: registry.example.com/peercache/dataplane:0.1.0
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// imagePullPolicy of the data plane's image: Always, IfNotPresent or Never.
	// +optional
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets name Secrets in this namespace that hold the credentials
	// for the image's registry.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// transport moves the pages between members. TCP needs nothing but the pod
	// network. RDMA reads with one-sided RDMA READ and needs rails. Auto is RDMA
	// between members that have rails and TCP with all others. With TCP, rails still
	// group the members and attach networks, but no rail's device is opened. So a
	// cluster can be switched to TCP and back to find a fault. A transport that the
	// released data plane cannot use yet is refused by condition ConfigAccepted.
	// +optional
	// +kubebuilder:default=TCP
	Transport Transport `json:"transport,omitempty"`

	// layout chooses the group of every rail that names none. Each group gets its
	// own DaemonSet, so a machine runs one member per group. PerNUMA: rails with the
	// same numaNode form a group, which keeps ports, memory and threads of a member
	// on one NUMA node. PerRail: each rail is a group of its own. PerNode: all
	// rails form one group. A change
	// gives rails other groups, whose members begin with empty pools, so it waits for
	// the annotation peercache.io/confirm-loss.
	// +optional
	// +kubebuilder:default=PerNUMA
	Layout Layout `json:"layout,omitempty"`

	// nodes chooses the Kubernetes nodes that take part. Left out: all of them
	// that pods may run on.
	// +optional
	// +kubebuilder:default={}
	Nodes NodesSpec `json:"nodes,omitzero"`

	// rails are the network ports to use for pages. Needed for transport RDMA; a
	// rail must exist on every Kubernetes node that takes part, or on every one of
	// the nodePools that name it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Rails []Rail `json:"rails,omitempty"`

	// nodePools divide the Kubernetes nodes into kinds of machines that differ in
	// rails, memory or cores. Examples are GPU machines with rails, and storage
	// machines without. Each is chosen by its selector, and a machine must match one
	// of them only. Left out: all machines are alike and have all rails. An SGLang pod
	// that names no group uses the first group of the first pool, so begin with the
	// pool where SGLang runs.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	NodePools []NodePool `json:"nodePools,omitempty"`

	// memory of every member.
	// +required
	Memory MemorySpec `json:"memory"`

	// disk gives members local drives for pages beyond their memory, which stay when
	// a member restarts. Left out: they keep pages in memory alone, as members inside
	// SGLang pods (injection.mode) always do.
	// +optional
	Disk *DiskSpec `json:"disk,omitempty"`

	// resources of every member besides the pool. They are requested and limited
	// alike, so that the pod has Guaranteed QoS and the kubelet's CPU and topology
	// managers can align it.
	// +optional
	// +kubebuilder:default={}
	Resources ResourcesSpec `json:"resources,omitzero"`

	// provision makes what rails need besides the members: a device plugin and networks.
	// Left out: the operator makes none.
	// +optional
	Provision ProvisionSpec `json:"provision,omitzero"`

	// rdma is how pages travel over RDMA. The defaults suit a network without priorities.
	// +optional
	RDMA RDMASpec `json:"rdma,omitzero"`

	// extraConfig sets options of peercached that no other field sets, by name, for
	// example log-level: debug. docs/node-options.md explains them. An option that
	// peercached does not have, or that another field sets, is refused by condition
	// ConfigAccepted, which names that field. Members inside SGLang (injection.mode
	// Embedded) get none of it: their options are in the pod's extra config.
	// Example: {"log-level": "debug", "max-directory-records": "33554432"}
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	ExtraConfig map[string]string `json:"extraConfig,omitempty"`

	// podTemplate is merged into the members' pod template, for what no other field of
	// spec sets: affinity, further labels, sidecars. Use the other fields where there is
	// one. A patch that removes or contradicts what members need breaks them. Sidecars
	// (injection.mode) get the environment of its container peercached, and nothing else.
	// The pod around a sidecar is not the operator's, and its cores and memory are in
	// injection. Embedded members get nothing of it.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`

	// update is how running members get a changed spec.
	// +optional
	// +kubebuilder:default={}
	Update UpdateSpec `json:"update,omitzero"`

	// discovery is how members find each other.
	// +optional
	// +kubebuilder:default={}
	Discovery DiscoverySpec `json:"discovery,omitzero"`

	// sharing is which pages an SGLang pod may find. Namespace: those of pods of its
	// own namespace. Pods never read, find or clear pages of another namespace. Each
	// namespace has its own socket and its own keys. The keys are derived from a
	// secret that the operator draws once. It is in the Secret NAME-tenants of this
	// namespace, where NAME is this object's. Members inside SGLang pods
	// (injection.mode) then serve this namespace alone. Cluster: those of all pods
	// that may use this cluster (injection.namespaceSelector), for namespaces that
	// trust each other, such as several that serve one model. Where weights cannot be
	// identified, a tag names them within the namespace of the pod. A change restarts
	// the members and loses their pages, so it waits for the annotation
	// peercache.io/confirm-loss. SGLang pods miss until they are created anew.
	// +optional
	// +kubebuilder:default=Namespace
	Sharing Sharing `json:"sharing,omitempty"`

	// injection is how pods of SGLang and vLLM are connected to this cluster.
	// +optional
	// +kubebuilder:default={}
	Injection InjectionSpec `json:"injection,omitzero"`

	// engines is what the containers of an engine get besides the connection.
	// +optional
	// +kubebuilder:default={}
	Engines EnginesSpec `json:"engines,omitzero"`

	// monitoring is how members are watched.
	// +optional
	// +kubebuilder:default={}
	Monitoring MonitoringSpec `json:"monitoring,omitzero"`

	// security of the connections between members.
	// +optional
	// +kubebuilder:default={}
	Security SecuritySpec `json:"security,omitzero"`

	// timing holds the bounds on waiting. The defaults suit a data-centre network.
	// +optional
	// +kubebuilder:default={leaseMilliseconds:1000,peerTimeoutMilliseconds:1000,heartbeatMilliseconds:500,memberTTLMilliseconds:3000}
	Timing TimingSpec `json:"timing,omitzero"`
}

// Mode is what the operator does.
// +kubebuilder:validation:Enum=Apply;Plan
type Mode string

// The modes.
const (
	ModeApply Mode = "Apply"
	ModePlan  Mode = "Plan"
)

// Transport moves pages between members.
// +kubebuilder:validation:Enum=TCP;RDMA;Auto
type Transport string

// The transports.
const (
	TransportTCP  Transport = "TCP"
	TransportRDMA Transport = "RDMA"
	TransportAuto Transport = "Auto"
)

// Sharing is which pages an SGLang pod may find.
// +kubebuilder:validation:Enum=Namespace;Cluster
type Sharing string

// Whose pages it may find.
const (
	// SharingNamespace keeps the pages of namespaces apart.
	SharingNamespace Sharing = "Namespace"
	// SharingCluster lets all pods of a cluster find each other's pages.
	SharingCluster Sharing = "Cluster"
)

// Layout is the default grouping of rails.
// +kubebuilder:validation:Enum=PerNUMA;PerRail;PerNode
type Layout string

// The layouts.
const (
	LayoutPerNUMA Layout = "PerNUMA"
	LayoutPerRail Layout = "PerRail"
	LayoutPerNode Layout = "PerNode"
)
