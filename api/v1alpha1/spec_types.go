// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodesSpec chooses Kubernetes nodes.
type NodesSpec struct {
	// selector lists labels that a Kubernetes node must carry to take part.
	// Example: {"peercache.io/node": "true"}
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Selector map[string]string `json:"selector,omitempty"`

	// tolerations let members run on tainted machines, such as GPU machines with
	// nvidia.com/gpu:NoSchedule.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// priorityClassName of the pods. A high priority, such as
	// system-node-critical, keeps the cache from being evicted in favour of other
	// pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// MemorySpec is the memory of a member.
//
// The rules on quantities parse each once, inside all(): the API server reckons the cost of a rule with
// quantities as long as a request can be, and bounds the sum of all rules.
//
// +kubebuilder:validation:XValidation:rule="!has(self.hostPath) || self.hugePages != '1Gi'",message="memory.hostPath keeps the pool in a file, which would need one page of 1Gi more than the pool: write hugePages: 2Mi or None, or remove hostPath"
// +kubebuilder:validation:XValidation:rule="self.hugePages == 'None' || [quantity(string(self.pool))].all(q, q.compareTo(quantity('64Ti')) > 0 || q.asInteger() % (self.hugePages == '1Gi' ? 1073741824 : 2097152) == 0)",message="memory.pool must be a multiple of memory.hugePages: round it, for example to 64Gi, or write hugePages: None"
type MemorySpec struct {
	// pool is the memory that each member gives to pages, from 16Mi to 64Ti, for
	// example 64Gi. It is allocated when the member starts and never grows; a full
	// pool makes room by evicting the pages that were used longest ago. A machine
	// that runs several groups gives it once per group.
	// +required
	// +kubebuilder:validation:XValidation:rule="[quantity(string(self))].all(q, q.compareTo(quantity('16Mi')) >= 0 && q.compareTo(quantity('64Ti')) <= 0 && q.isInteger())",message="memory.pool must lie between 16Mi and 64Ti: write whole bytes with a unit, for example 64Gi"
	Pool resource.Quantity `json:"pool"`

	// hugePages backs the pool. None uses ordinary pages. 2Mi and 1Gi request
	// hugepages-2Mi or hugepages-1Gi from Kubernetes. Reserve them on the machines
	// first (vm.nr_hugepages, or hugepages= on the kernel command line). Huge pages
	// make registration with the network card and copying cheaper.
	// +optional
	// +kubebuilder:default=None
	HugePages HugePages `json:"hugePages,omitempty"`

	// hostPath is a folder of the machine, in memory, for the file of the pool. Pages
	// then outlive the pod: a changed spec, a drain, a DaemonSet that is made anew. The
	// folder must exist, on a tmpfs, or with hugePages on a hugetlbfs with pages of that
	// size. Each member makes a folder of its own below. A small pod on each machine
	// removes the file when the cluster is deleted, the machine leaves it, or hostPath
	// changes. Left out: pages outlive a container at most, depending on update.strategy.
	// Example: /run/peercache-pool
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9_][-A-Za-z0-9_.@:+=]*)+$')",message="memory.hostPath must be the absolute path of a folder, without commas, spaces or '..', and not / itself: write for example /run/peercache-pool"
	HostPath string `json:"hostPath,omitempty"`
}

// HugePages is the page size behind the pool.
// +kubebuilder:validation:Enum=None;"2Mi";"1Gi"
type HugePages string

// The page sizes.
const (
	HugePagesNone HugePages = "None"
	HugePages2Mi  HugePages = "2Mi"
	HugePages1Gi  HugePages = "1Gi"
)

// ResourcesSpec is what a member needs besides its pool. Both amounts are requested and limited alike, so that the pod is
// Guaranteed.
type ResourcesSpec struct {
	// cpu of each member in cores, from 100m to 1024. A whole number lets the
	// kubelet's static CPU manager give the member cores of its own. Any other number,
	// such as 3500m, leaves it on the cores that all pods share. Write one where the
	// kubelet would choose cores of the wrong NUMA node (docs/rails.md).
	// +optional
	// +kubebuilder:default="1"
	// +kubebuilder:validation:XValidation:rule="[quantity(string(self))].all(q, q.compareTo(quantity('100m')) >= 0 && q.compareTo(quantity('1024')) <= 0)",message="resources.cpu must lie between 100m and 1024 cores: write for example 2, or 3500m for cores that are shared with other pods"
	CPU resource.Quantity `json:"cpu,omitzero"`

	// memoryOverhead is the memory of each member for code, connections, buffers, and the
	// page tables of what engines share. These are 2Mi for every Gi of host pools. It is
	// at least 64Mi. The operator adds the pool, 320 bytes for every 64Ki of it, its page
	// tables, and the memory of disk. Raise it where engines of a machine share more than
	// 128Gi, or where pages are shorter than 64Ki.
	// +optional
	// +kubebuilder:default="512Mi"
	// +kubebuilder:validation:XValidation:rule="[quantity(string(self))].all(q, q.compareTo(quantity('64Mi')) >= 0 && q.compareTo(quantity('1Ti')) <= 0 && q.isInteger())",message="resources.memoryOverhead must lie between 64Mi and 1Ti: write for example 512Mi"
	MemoryOverhead resource.Quantity `json:"memoryOverhead,omitzero"`
}

// DiscoverySpec is how members find each other.
type DiscoverySpec struct {
	// replicas is how many members host discovery, from 1 to 7. They are found by the
	// Service <name>-discovery, each keeps the whole membership by itself, and one
	// that is left is enough. They are spread over machines, then over zones (the
	// machines' label topology.kubernetes.io/zone). One that is not ready for half a
	// minute is replaced. A healthy host moves only to a pod on a machine or in a zone
	// with fewer hosts. That pod must have been ready for two minutes, or half as long
	// as the host.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	Replicas int32 `json:"replicas,omitempty"`

	// port on which members talk to each other: discovery, directory and, with
	// transport TCP, pages.
	// +optional
	// +kubebuilder:default=31998
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// interface of the members' pods at which other members reach them, for everything
	// but finding each other, which stays on the pod network. In every group it is an
	// interface of a rail (rails[].network.interface), or with attachment HostNetwork
	// one of the machine. All members must reach each other there. With transport TCP
	// pages then travel over that network. Left out: the pod network.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][-A-Za-z0-9_.]*$')",message="interface must be the name of a network interface of at most 15 characters: write for example rail0"
	Interface string `json:"interface,omitempty"`
}

// MonitoringSpec is how members are watched.
type MonitoringSpec struct {
	// port of each member's HTTP server: /metrics for Prometheus, /healthz, /readyz
	// and /v1/status.
	// +optional
	// +kubebuilder:default=31997
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// scrape is how Prometheus finds the members: None leaves that to you, PodMonitor
	// and ServiceMonitor make an object of that kind of the Prometheus Operator. The
	// operator must be allowed to (rbac.monitoring of the Helm chart, or
	// config/rights/monitoring).
	// Choose None where a monitor for all clusters exists, such as that of the Helm
	// chart's metrics.podMonitors, or members are scraped twice. With injection.mode:
	// Sidecar both also make a PodMonitor for the sidecars.
	// +optional
	// +kubebuilder:default=None
	Scrape ScrapeKind `json:"scrape,omitempty"`

	// interval between scrapes, for example 15s. Left out: that of Prometheus.
	// +optional
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*(s|m)$`
	// +kubebuilder:validation:MaxLength=8
	Interval string `json:"interval,omitempty"`

	// rules is how recording rules and alerts are evaluated: not at all, or in Prometheus
	// by a PrometheusRule. Each alert names its page in docs/runbooks.
	// +optional
	// +kubebuilder:default=None
	Rules RulesKind `json:"rules,omitempty"`

	// dashboards is how Grafana gets its dashboards: not at all, or by a ConfigMap
	// with the label grafana_dashboard, by which Grafana's sidecar finds it. They are
	// the same for all clusters.
	// +optional
	// +kubebuilder:default=None
	Dashboards DashboardsKind `json:"dashboards,omitempty"`

	// labels of the monitor and the rules, for a Prometheus that selects by label.
	// Example: {"release": "prometheus"}
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Labels map[string]string `json:"labels,omitempty"`
}

// ScrapeKind is what makes Prometheus scrape the members.
// +kubebuilder:validation:Enum=None;PodMonitor;ServiceMonitor
type ScrapeKind string

// The kinds of monitors.
const (
	ScrapeNone           ScrapeKind = "None"
	ScrapePodMonitor     ScrapeKind = "PodMonitor"
	ScrapeServiceMonitor ScrapeKind = "ServiceMonitor"
)

// RulesKind is what makes Prometheus evaluate rules.
// +kubebuilder:validation:Enum=None;PrometheusRule
type RulesKind string

// The kinds of rules.
const (
	RulesNone           RulesKind = "None"
	RulesPrometheusRule RulesKind = "PrometheusRule"
)

// DashboardsKind is what brings dashboards to Grafana.
// +kubebuilder:validation:Enum=None;ConfigMap
type DashboardsKind string

// The kinds of dashboards.
const (
	DashboardsNone      DashboardsKind = "None"
	DashboardsConfigMap DashboardsKind = "ConfigMap"
)

// TimingSpec bounds waiting.
//
// +kubebuilder:validation:XValidation:rule="self.memberTTLMilliseconds >= 3 * self.heartbeatMilliseconds",message="timing.memberTTLMilliseconds must be at least three times timing.heartbeatMilliseconds, or a late heartbeat drops a member: write for example heartbeatMilliseconds: 500 and memberTTLMilliseconds: 3000"
type TimingSpec struct {
	// leaseMilliseconds is how long a reader may use the place of a page after
	// asking for it. A slot is not reused before its lease has passed, so a longer
	// lease holds freed memory back for longer.
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=60000
	LeaseMilliseconds int32 `json:"leaseMilliseconds,omitempty"`

	// peerTimeoutMilliseconds is the longest that a call waits for a member that
	// does not answer. After that its pages are misses, and calls to it fail at
	// once until it answers again.
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=60000
	PeerTimeoutMilliseconds int32 `json:"peerTimeoutMilliseconds,omitempty"`

	// heartbeatMilliseconds is how often a member reports to every discovery host.
	// +optional
	// +kubebuilder:default=500
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=60000
	HeartbeatMilliseconds int32 `json:"heartbeatMilliseconds,omitempty"`

	// memberTTLMilliseconds is how long a member stays in the list after its last
	// heartbeat.
	// +optional
	// +kubebuilder:default=3000
	// +kubebuilder:validation:Minimum=200
	// +kubebuilder:validation:Maximum=600000
	MemberTTLMilliseconds int32 `json:"memberTTLMilliseconds,omitempty"`
}

// SecuritySpec is how connections between members are protected. A member with a token
// or TLS and one without it refuse each other. So while a change of these fields rolls
// through the cluster, pages on members of the other kind are misses.
//
// +kubebuilder:validation:XValidation:rule="!has(self.token) || !has(self.peers) || self.peers != 'Insecure'",message="security.token is not used with security.peers: Insecure: remove security.token, or write security.peers: Token"
type SecuritySpec struct {
	// peers is how members authenticate each other. Token: members prove that they have
	// the cluster's token, which is never sent. Insecure: any process that reaches the
	// port and names the cluster may read, change and clear pages. With tls, it needs a
	// certificate.
	// +optional
	// +kubebuilder:default=Token
	Peers PeerTrust `json:"peers,omitempty"`

	// token is where the token comes from. Left out: the operator draws one and
	// keeps it in the Secret NAME-token of this namespace, where NAME is this object's.
	// +optional
	Token *TokenSpec `json:"token,omitempty"`

	// networkPolicy is who reaches the members' port for peers, as far as the network of
	// the Kubernetes cluster enforces policies. Peers: a NetworkPolicy admits only this
	// cluster's members and SGLang pods that name it, on that port. Other ports that
	// the members' pods name stay open. It does not cover networks of rails, and is not
	// made where rails are attached by HostNetwork. None: the operator makes no policy,
	// as SGLang pods need that have a member inside and hostNetwork.
	// +optional
	// +kubebuilder:default=Peers
	NetworkPolicy NetworkPolicyKind `json:"networkPolicy,omitempty"`

	// tls encrypts the connections between members and has both sides show a
	// certificate. Left out: they are not encrypted.
	// +optional
	TLS *TLSSpec `json:"tls,omitempty"`
}

// PeerTrust is how members authenticate each other.
// +kubebuilder:validation:Enum=Token;Insecure
type PeerTrust string

// How members authenticate each other.
const (
	PeersToken    PeerTrust = "Token"
	PeersInsecure PeerTrust = "Insecure"
)

// NetworkPolicyKind is who reaches the members' port for peers.
// +kubebuilder:validation:Enum=Peers;None
type NetworkPolicyKind string

// Who reaches the members' port for peers.
const (
	NetworkPolicyPeers NetworkPolicyKind = "Peers"
	NetworkPolicyNone  NetworkPolicyKind = "None"
)

// TokenSpec is where the token of the members comes from.
type TokenSpec struct {
	// secretName is a Secret in this namespace with the key token. It has one token of
	// at least 128 bits per line. Members prove the first and accept all. The operator
	// does not read it. The members follow its changes without a restart.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="secretName must be the name of a Secret in this namespace: write for example kv-peers-token"
	SecretName string `json:"secretName"`
}

// TLSSpec is where the certificate of the members comes from.
type TLSSpec struct {
	// secretName is a Secret of type kubernetes.io/tls in this namespace with the
	// keys tls.crt, tls.key and ca.crt, as cert-manager makes it. Every certificate
	// of the CAs in ca.crt is a member's, unless peerName is given. The members
	// follow changes of the Secret without a restart. The certificate must be good
	// for server and client authentication.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="secretName must be the name of a Secret in this namespace: write for example kv-peers-tls"
	SecretName string `json:"secretName"`

	// peerName is a DNS name that the certificate carries in its subjectAltName, and that
	// every member requires of its peers. Set it where the CA also signs certificates of
	// other programs.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$')",message="peerName must be a DNS name: write for example kv.peercache.internal"
	PeerName string `json:"peerName,omitempty"`
}

// EnginesSpec is what the containers of each engine get. It is read when a pod is created.
type EnginesSpec struct {
	// vllm is what vLLM containers get.
	// +optional
	// +kubebuilder:default={}
	VLLM VLLMSpec `json:"vllm,omitzero"`
}

// VLLMSpec is what vLLM containers get.
type VLLMSpec struct {
	// hostMemory is the pinned memory in /dev/shm of each data-parallel rank of vLLM,
	// from 256Mi to 64Ti; 4Gi when left out. Example: 8Gi
	// +optional
	// +kubebuilder:default="4Gi"
	// +kubebuilder:validation:XValidation:rule="[quantity(string(self))].all(q, q.compareTo(quantity('256Mi')) >= 0 && q.compareTo(quantity('64Ti')) <= 0 && q.isInteger())",message="engines.vllm.hostMemory must lie between 256Mi and 64Ti: write whole bytes with a unit, for example 8Gi"
	HostMemory resource.Quantity `json:"hostMemory,omitzero"`
}

// InjectionSpec is how pods of SGLang and vLLM are connected. It is read when a pod is
// created; pods that run already keep what they were given.
//
// The rules also hold for the default, {}, before the defaults of its fields are filled in.
//
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || self.mode != 'Node'",message="injection.memory is the memory of a member inside the SGLang pod: write injection.mode: Sidecar or Embedded, or remove it (spec.memory is that of the cluster's own members)"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || !has(self.memory.hostPath)",message="injection.memory.hostPath is for the cluster's own members: a member inside an SGLang pod ends with it; remove hostPath, or write it in spec.memory"
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || self.mode == 'Sidecar'",message="injection.resources are those of the sidecar: write injection.mode: Sidecar, or remove them"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Embedded' || self.client.delivery == 'Preinstalled'",message="injection.mode Embedded needs the package with a member in the SGLang image (pip install ./dataplane), because the client image has none: write injection.client.delivery: Preinstalled"
// +kubebuilder:validation:XValidation:rule="!has(self.by) || self.by != 'AdmissionPolicy' || !has(self.mode) || self.mode == 'Node'",message="injection.by AdmissionPolicy connects SGLang pods to the members of their machines only: write injection.mode: Node, or injection.by: Webhook"
// +kubebuilder:validation:XValidation:rule="!has(self.holdout) || !has(self.by) || self.by != 'AdmissionPolicy'",message="injection.holdout draws lots, which an admission policy cannot: write injection.by: Webhook, or remove holdout and annotate the pods of one Deployment with peercache.io/holdout"
type InjectionSpec struct {
	// by is who connects pods. Webhook: the operator, which the API server
	// asks about every pod with the label. AdmissionPolicy: the API server itself, by
	// rules that the operator writes into a MutatingAdmissionPolicy, so that no
	// webhook has to run or be reached. SGLang pods come out the same. It needs
	// Kubernetes 1.36 or newer and mode Node, and leaves a container alone whose extra
	// config has objects within its JSON object. It leaves vLLM containers alone.
	// The operator must be allowed to write
	// such policies (rbac.admissionPolicies of the Helm chart, or
	// config/rights/admission-policies).
	// +optional
	// +kubebuilder:default=Webhook
	By InjectionBy `json:"by,omitempty"`

	// mode is where the PeerCache member of an engine's pod runs. Node: in this cluster's
	// pod on the same machine, reached through a Unix socket. The engine's pod then needs
	// no device and no privilege, and pages survive it. Sidecar: in a container of its own
	// in that pod (a native sidecar, so Kubernetes 1.29 or newer). Embedded: inside the
	// SGLang process; vLLM containers are left alone. Sidecar and Embedded members join
	// this cluster. Their pool is memory of the engine's pod; their pages end with it. At
	// least one of the cluster's own members must run, for discovery. With transport RDMA
	// they get the devices, networks and IPC_LOCK that the cluster's own members would
	// get. A pod that cannot be connected so has the reason in its annotation
	// peercache.io/skip-reason.
	// +optional
	// +kubebuilder:default=Node
	Mode InjectionMode `json:"mode,omitempty"`

	// memory of the member inside an SGLang pod. Left out: as the cluster's own
	// members of the pod's group. For Sidecar the sidecar requests it, and is limited
	// to it. For Embedded the memory limit of the SGLang container, where it has one,
	// must leave room for it.
	// +optional
	Memory *MemorySpec `json:"memory,omitempty"`

	// resources of the sidecar besides its pool. Left out: as the cluster's own
	// members of the pod's group.
	// +optional
	Resources *ResourcesSpec `json:"resources,omitempty"`

	// client is the Python package that runs inside the engine.
	// +optional
	// +kubebuilder:default={}
	Client ClientSpec `json:"client,omitzero"`

	// socket is how the directory of the Unix sockets reaches the SGLang pod in mode Node.
	// HostPath mounts it from /run/peercache of the machine. So the SGLang pod's namespace
	// must allow hostPath volumes (Pod Security "privileged"). Every pod there can then
	// mount any other directory as well. CSI gives the same directory as an
	// ephemeral volume of the driver csi.peercache.io, which Pod Security "restricted"
	// allows. Only pods of this namespace and of those that namespaceSelector selects get
	// it. With sharing: Namespace the driver chooses the namespace's directory; the pod
	// cannot. The driver is a DaemonSet of its own (csi.enabled of the Helm chart, or
	// config/csi) and has to run on the SGLang pod's machine. Where it is not installed,
	// pods are not connected, and condition InjectionReady reports it.
	// +optional
	// +kubebuilder:default=HostPath
	Socket SocketDelivery `json:"socket,omitempty"`

	// namespaceSelector selects the other namespaces whose engines may use this cluster,
	// beside those of its own namespace, which always may. Left out: no others. {}
	// selects all namespaces, and matchLabels: {kubernetes.io/metadata.name: NAME}
	// one. In those the operator's images are used instead of this cluster's
	// (injection.client.image, image), because authors of this resource must not choose
	// images in other namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// imagePullSecrets name Secrets with the credentials of the registry of the
	// operator's images, in the namespaces of the SGLang pods. They are added to
	// every pod that is connected, also where imagePullSecrets of this cluster, which
	// are of its own namespace, do not exist. A Secret that a namespace lacks does no
	// harm.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// bypass takes the cache out of the way of SGLang pods while it is Enabled. What
	// they look up is missing, and what they store is refused, at once. Pages stay,
	// nothing restarts, and members follow within five seconds. For one Kubernetes
	// node, use kubectl peercache bypass --node. Members inside SGLang pods (modes
	// Sidecar and Embedded) do not follow it.
	// +optional
	// +kubebuilder:default=Disabled
	Bypass Switch `json:"bypass,omitempty"`

	// holdout is the share of new engine pods that run without cache, from 1% to 50%;
	// none when left out. TTFT with and without cache can then be compared on your own
	// traffic. A pod of an engine in several pods is never chosen. The annotation
	// peercache.io/holdout of a pod, true or false, counts before it. Example: 10%
	// +optional
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9]|[1-4][0-9]|50)%$')",message="injection.holdout must be a percentage from 1% to 50%: write for example 10%, or remove it"
	Holdout string `json:"holdout,omitempty"`

	// missedPods is what becomes of running pods that ask for this cluster and were
	// not connected. The webhook was not reached when they were created, or the policy
	// was not in effect, or they got their label later. Report counts them in
	// status.missedPods and names some in condition InjectionReady. Recreate also
	// evicts such a pod, so that it is recreated, if a controller owns it and it
	// would be connected now. It evicts one every ten seconds, within
	// PodDisruptionBudgets. The operator must be allowed to evict them
	// (rbac.missedPods of the Helm chart, or config/rights/missed-pods).
	// +optional
	// +kubebuilder:default=Report
	MissedPods MissedPods `json:"missedPods,omitempty"`
}

// InjectionBy is who connects SGLang pods.
// +kubebuilder:validation:Enum=Webhook;AdmissionPolicy
type InjectionBy string

// Who can connect them.
const (
	// InjectionByWebhook has the API server ask the operator.
	InjectionByWebhook InjectionBy = "Webhook"
	// InjectionByPolicy has the API server do it by rules of the operator's.
	InjectionByPolicy InjectionBy = "AdmissionPolicy"
)

// MissedPods is what becomes of pods that were not connected.
// +kubebuilder:validation:Enum=Report;Recreate
type MissedPods string

// What can become of them.
const (
	MissedPodsReport   MissedPods = "Report"
	MissedPodsRecreate MissedPods = "Recreate"
)

// InjectionMode is where the member of an SGLang pod runs.
// +kubebuilder:validation:Enum=Node;Sidecar;Embedded
type InjectionMode string

// The modes of injection.
const (
	// InjectionNode uses the cluster's member on the pod's machine.
	InjectionNode InjectionMode = "Node"
	// InjectionSidecar runs a member beside SGLang.
	InjectionSidecar InjectionMode = "Sidecar"
	// InjectionEmbedded runs a member inside SGLang.
	InjectionEmbedded InjectionMode = "Embedded"
)

// SocketDelivery is how the socket directory reaches SGLang pods.
// +kubebuilder:validation:Enum=HostPath;CSI
type SocketDelivery string

// The ways.
const (
	// SocketHostPath mounts the machine's directory.
	SocketHostPath SocketDelivery = "HostPath"
	// SocketCSI has the CSI driver mount it.
	SocketCSI SocketDelivery = "CSI"
)

// ClientSpec is the Python package that runs inside SGLang.
//
// +kubebuilder:validation:XValidation:rule="!has(self.image) || self.delivery != 'Preinstalled'",message="injection.client.image is not used with delivery: Preinstalled, where the SGLang image holds the package: remove image, or write delivery: InitContainer or ImageVolume"
type ClientSpec struct {
	// image that holds the package. Empty means the image that was released with
	// the operator.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// imagePullPolicy of the client image: Always, IfNotPresent or Never.
	// +optional
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// delivery is how the package reaches the SGLang container. InitContainer copies
	// it from the image into an emptyDir before SGLang starts. ImageVolume mounts the
	// image itself, read-only, without a container or a copy. It needs Kubernetes 1.35
	// or newer, and a runtime that mounts parts of images: containerd 2.2 or CRI-O
	// 1.33. Kubernetes 1.33 and 1.34 have it with the feature gate ImageVolume on API
	// server and kubelets; an API server without it refuses such pods. Preinstalled
	// delivers nothing: the SGLang image has the package already, in the version of
	// this release.
	// +optional
	// +kubebuilder:default=InitContainer
	Delivery ClientDelivery `json:"delivery,omitempty"`
}

// ClientDelivery is how the client package reaches the SGLang container.
// +kubebuilder:validation:Enum=InitContainer;ImageVolume;Preinstalled
type ClientDelivery string

// The deliveries.
const (
	// ClientInitContainer copies the package in an init container.
	ClientInitContainer ClientDelivery = "InitContainer"
	// ClientImageVolume mounts the client image.
	ClientImageVolume ClientDelivery = "ImageVolume"
	// ClientPreinstalled leaves it to the SGLang image.
	ClientPreinstalled ClientDelivery = "Preinstalled"
)
