// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Rail is one network port with the way it reaches the member's pod. The field
// attachment chooses the way, and which of these fields the rail has:
//
//	SharedDevicePlugin  sharedDevicePlugin, usually with network
//	SRIOV               sriov and network
//	DRA                 dra; network if the driver brings no interface
//	HostNetwork         hostNetwork, except with transport TCP
//	Network             network; with transport TCP only
//
// +kubebuilder:validation:XValidation:rule="has(self.sharedDevicePlugin) == (self.attachment == 'SharedDevicePlugin') && has(self.sriov) == (self.attachment == 'SRIOV') && has(self.dra) == (self.attachment == 'DRA') && (!has(self.hostNetwork) || self.attachment == 'HostNetwork')",message="a rail has the settings of its attachment and of no other: write sharedDevicePlugin: {resourceName: rdma/hca_shared_devices_a} with attachment SharedDevicePlugin, sriov: {resourceName: nvidia.com/rail0} with SRIOV, dra: {resourceClaimTemplate: rail0} with DRA, hostNetwork: {device: mlx5_0} with HostNetwork, none of them with Network, and remove all other settings"
// +kubebuilder:validation:XValidation:rule="self.attachment == 'HostNetwork' ? !has(self.network) : has(self.network) || !(self.attachment in ['SRIOV', 'Network'])",message="network is the interface that Multus gives to the pod: attachments SRIOV and Network need it, write for example network: {name: default/rail0}; HostNetwork has every interface of the machine, remove network there"
type Rail struct {
	// name of the rail, unique in the cluster, for example rail0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a rail's name may hold lower-case letters, digits and '-' and must begin and end with a letter or digit: write for example rail0"
	Name string `json:"name"`

	// group is the set of rails that one member drives; rails with the same group
	// share a DaemonSet. Left out: chosen by layout.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a group's name may hold lower-case letters, digits and '-' and must begin and end with a letter or digit: write for example numa0"
	Group string `json:"group,omitempty"`

	// numaNode is the NUMA node of the port
	// (/sys/class/net/<interface>/device/numa_node). Under layout PerNUMA the
	// group is then "numa<numaNode>".
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	NUMANode *int32 `json:"numaNode,omitempty"`

	// attachment is how the port reaches the pod. SharedDevicePlugin: a device shared
	// by all pods through k8s-rdma-shared-dev-plugin, usually with a macvlan or ipoib
	// network. SRIOV: a virtual function of its own. HostNetwork: the pod uses the
	// machine's network. Its member must then be the only one on the machine with that
	// attachment, because the ports are the machine's. DRA: a device allocated by
	// dynamic resource allocation (resource.k8s.io/v1). Network: an interface by
	// Multus and no device, for transport TCP; pages travel there because
	// discovery.interface names its interface, as it must.
	// +required
	// +unionDiscriminator
	Attachment RailAttachment `json:"attachment"`

	// sharedDevicePlugin is the shared device that the pod requests.
	// +optional
	// +unionMember
	SharedDevicePlugin *SharedDevice `json:"sharedDevicePlugin,omitempty"`

	// sriov is the virtual function that the pod requests.
	// +optional
	// +unionMember
	SRIOV *VirtualFunction `json:"sriov,omitempty"`

	// dra is the ResourceClaim from which the device comes.
	// +optional
	// +unionMember
	DRA *ClaimedDevice `json:"dra,omitempty"`

	// hostNetwork is the device of the machine that the member opens.
	// +optional
	// +unionMember
	HostNetwork *HostDevice `json:"hostNetwork,omitempty"`

	// network is the interface that Multus gives to the pod on this port. Needed by
	// attachments SRIOV and Network.
	// +optional
	Network *RailNetwork `json:"network,omitempty"`
}

// RailAttachment is how a port reaches the pod.
// +kubebuilder:validation:Enum=SharedDevicePlugin;SRIOV;HostNetwork;DRA;Network
type RailAttachment string

// The attachments.
const (
	AttachmentSharedDevicePlugin RailAttachment = "SharedDevicePlugin"
	AttachmentSRIOV              RailAttachment = "SRIOV"
	AttachmentHostNetwork        RailAttachment = "HostNetwork"
	AttachmentDRA                RailAttachment = "DRA"
	AttachmentNetwork            RailAttachment = "Network"
)

// ExtendedResource is the name of what a device plugin offers, with a domain.
//
// +kubebuilder:validation:MinLength=3
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="resourceName must be an extended resource with a domain: write for example rdma/hca_shared_devices_a"
type ExtendedResource string

// DeviceName is the name of an RDMA device.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][-A-Za-z0-9_.]*$')",message="device must be the name of an RDMA device as ibv_devices lists it: write for example mlx5_0"
type DeviceName string

// SharedDevice is a device of k8s-rdma-shared-dev-plugin.
type SharedDevice struct {
	// resourceName is the extended resource that the plugin offers and the pod
	// requests, for example rdma/hca_shared_devices_a.
	// +required
	ResourceName ExtendedResource `json:"resourceName"`

	// device is the RDMA device to open, as `ibv_devices` lists it, for example
	// mlx5_0, where the plugin gives several. Left out: all that the pod was given.
	// +optional
	Device DeviceName `json:"device,omitempty"`
}

// VirtualFunction is a device of the SR-IOV network device plugin, which chooses it.
type VirtualFunction struct {
	// resourceName is the extended resource that the plugin offers and the pod
	// requests, for example nvidia.com/rail0.
	// +required
	ResourceName ExtendedResource `json:"resourceName"`
}

// ClaimedDevice is a device that a ResourceClaim allocates.
type ClaimedDevice struct {
	// resourceClaimTemplate is the ResourceClaimTemplate of this namespace from
	// which every pod gets a claim for the rail's device.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="resourceClaimTemplate must be the name of a ResourceClaimTemplate in this namespace: write lower-case letters, digits, '-' and '.', for example rail0"
	ResourceClaimTemplate string `json:"resourceClaimTemplate"`

	// request is the request of the template that stands for this rail, where the
	// template has several. Rails of a group that name the same template and a request
	// each share one claim. So the template's constraints, such as one NUMA node for
	// all devices, hold between them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="request must be the name of a request in the ResourceClaimTemplate: write for example nic0"
	Request string `json:"request,omitempty"`
}

// HostDevice is a device of the machine.
type HostDevice struct {
	// device is the RDMA device to open, as `ibv_devices` lists it, for example
	// mlx5_0. Needed, except with transport TCP, which opens none.
	// +optional
	Device DeviceName `json:"device,omitempty"`

	// resourceName is the extended resource of a shared device to request, for
	// example rdma/hca_shared_devices_a. Left out: the pod has to be privileged to
	// open the RDMA device.
	// +optional
	ResourceName ExtendedResource `json:"resourceName,omitempty"`
}

// RailNetwork is an interface that Multus gives to the pod.
type RailNetwork struct {
	// name of the NetworkAttachmentDefinition, as name or namespace/name, for
	// example default/rail0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="network.name must be the name of a NetworkAttachmentDefinition: write name or namespace/name, for example default/rail0"
	Name string `json:"name"`

	// interface is the name that the interface gets inside the pod. Left out:
	// Multus counts net1, net2 and so on.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][-A-Za-z0-9_.]*$')",message="interface must be the name of a network interface of at most 15 characters: write for example rail0"
	Interface string `json:"interface,omitempty"`

	// ips are asked for on the interface, each as address/length, for example
	// 192.168.10.5/24. The network's IPAM must allow it (static IPAM with
	// "capabilities": {"ips": true}). All members of the group get the same, so this
	// suits a group on one machine; let the network's IPAM choose otherwise.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(ip, isCIDR(ip))",message="ips must be addresses with the length of their network: write for example 192.168.10.5/24"
	IPs []string `json:"ips,omitempty"`

	// mac is the hardware address of the interface, for example 02:00:00:00:00:01.
	// Like ips, it suits a group on one machine.
	// +optional
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="mac must be six lower-case hexadecimal bytes: write for example 02:00:00:00:00:01"
	MAC string `json:"mac,omitempty"`
}

// ResourceName is the extended resource that the pod requests for the rail; "" where it requests none.
func (r Rail) ResourceName() string {
	switch {
	case r.SharedDevicePlugin != nil:
		return string(r.SharedDevicePlugin.ResourceName)
	case r.SRIOV != nil:
		return string(r.SRIOV.ResourceName)
	case r.HostNetwork != nil:
		return string(r.HostNetwork.ResourceName)
	default:
		return ""
	}
}

// Device is the RDMA device that the rail names; "" where it names none.
func (r Rail) Device() string {
	switch {
	case r.SharedDevicePlugin != nil:
		return string(r.SharedDevicePlugin.Device)
	case r.HostNetwork != nil:
		return string(r.HostNetwork.Device)
	default:
		return ""
	}
}

// Attached is the rail's network; the zero value where it has none.
func (r Rail) Attached() RailNetwork {
	if r.Network == nil {
		return RailNetwork{}
	}
	return *r.Network
}

// Claim is where the rail's device comes from by DRA; the zero value where it comes otherwise.
func (r Rail) Claim() ClaimedDevice {
	if r.DRA == nil {
		return ClaimedDevice{}
	}
	return *r.DRA
}
