// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Rail is one network port with the way it reaches the node's pod. Which fields
// belong together is chosen by attachment:
//
//	SharedDevicePlugin  resourceName, usually network; device if the plug-in gives several
//	SRIOV               resourceName and network
//	DRA                 resourceClaimTemplate; network if the driver brings no interface
//	HostNetwork         device, except with transport TCP
//	Network             network; with transport TCP only
//
// +kubebuilder:validation:XValidation:rule="self.attachment != 'SharedDevicePlugin' || has(self.resourceName)",message="resourceName is missing: attachment SharedDevicePlugin takes the device from a device plug-in; write the extended resource that it advertises, for example resourceName: rdma/hca_shared_devices_a, or, for a network that carries pages by TCP, attachment: Network"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'SRIOV' || (has(self.resourceName) && has(self.network))",message="attachment SRIOV needs resourceName and network: write the resource of the SR-IOV device plug-in and the NetworkAttachmentDefinition that uses it, for example resourceName: nvidia.com/rail0 and network: default/rail0"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'SRIOV' || !has(self.device)",message="device cannot be set with attachment SRIOV, where the device plug-in chooses it: remove device"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'HostNetwork' || (!has(self.network) && !has(self.interface))",message="attachment HostNetwork already has every interface of the machine: remove network and interface, or write attachment: SharedDevicePlugin or SRIOV, or, for a network that carries pages by TCP, Network"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'DRA' || has(self.resourceClaimTemplate)",message="resourceClaimTemplate is missing: attachment DRA takes the device from a ResourceClaim; write the name of a ResourceClaimTemplate of this namespace, for example resourceClaimTemplate: rail0, or, for a network that carries pages by TCP, attachment: Network"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'DRA' || (!has(self.resourceName) && !has(self.device))",message="attachment DRA leaves the device to the ResourceClaim: remove resourceName and device, or write attachment: SharedDevicePlugin"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'Network' || has(self.network)",message="network is missing: attachment Network is an interface that Multus gives to the pod; write the NetworkAttachmentDefinition, for example network: default/rail0"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'Network' || (!has(self.resourceName) && !has(self.device))",message="attachment Network takes no device: remove resourceName and device, or write attachment: SharedDevicePlugin"
// +kubebuilder:validation:XValidation:rule="self.attachment == 'DRA' || (!has(self.resourceClaimTemplate) && !has(self.request))",message="resourceClaimTemplate and request belong to attachment DRA: write attachment: DRA, or remove them"
// +kubebuilder:validation:XValidation:rule="!has(self.interface) || has(self.network) || self.attachment == 'HostNetwork'",message="interface names the pod's interface of a network: add network (namespace/name of a NetworkAttachmentDefinition) or remove interface"
// +kubebuilder:validation:XValidation:rule="has(self.network) || (!has(self.ips) && !has(self.mac))",message="ips and mac are given to the pod's interface of a network: add network (namespace/name of a NetworkAttachmentDefinition) or remove ips and mac"
type Rail struct {
	// name of the rail, unique in the cluster, for example rail0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a rail's name may hold lower-case letters, digits and '-' and must begin and end with a letter or digit: write for example rail0"
	Name string `json:"name"`

	// group is the set of rails that one node drives; rails with the same group
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

	// attachment is how the port reaches the pod. SharedDevicePlugin: a device
	// shared by all pods through k8s-rdma-shared-dev-plugin, usually with a
	// macvlan or ipoib network. SRIOV: a virtual function of its own. HostNetwork:
	// the pod uses the machine's network; its node must then be the only one on
	// the machine with that attachment, because the ports are the machine's. DRA:
	// a device allocated by dynamic resource allocation (resource.k8s.io/v1).
	// Network: an interface by Multus and no device, for transport TCP; pages
	// travel there because discovery.interface names its interface, as it must.
	// +required
	Attachment RailAttachment `json:"attachment"`

	// resourceName is the extended resource to request, for example
	// rdma/hca_shared_devices_a. Needed by SharedDevicePlugin and SRIOV. With
	// HostNetwork it may be left out; the pod then has to be privileged to open
	// the RDMA device.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="resourceName must be an extended resource with a domain: write for example rdma/hca_shared_devices_a"
	ResourceName string `json:"resourceName,omitempty"`

	// network is the Multus NetworkAttachmentDefinition that gives the pod an
	// interface on this port, as name or namespace/name. Needed by SRIOV and Network.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="network must be the name of a NetworkAttachmentDefinition: write name or namespace/name, for example default/rail0"
	Network string `json:"network,omitempty"`

	// interface is the name that the network's interface gets inside the pod. Left
	// out: Multus counts net1, net2 and so on.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][-A-Za-z0-9_.]*$')",message="interface must be the name of a network interface of at most 15 characters: write for example rail0"
	Interface string `json:"interface,omitempty"`

	// ips are asked for on the network's interface, each as address/length, for
	// example 192.168.10.5/24. The network's IPAM must allow it (static IPAM with
	// "capabilities": {"ips": true}). All nodes of the group get the same, so this
	// suits a group on one machine; let the network's IPAM choose otherwise.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(ip, isCIDR(ip))",message="ips must be addresses with the length of their network: write for example 192.168.10.5/24"
	IPs []string `json:"ips,omitempty"`

	// mac is the hardware address of the network's interface, for example
	// 02:00:00:00:00:01. Like ips, it suits a group on one machine.
	// +optional
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="mac must be six lower-case hexadecimal bytes: write for example 02:00:00:00:00:01"
	MAC string `json:"mac,omitempty"`

	// resourceClaimTemplate is the ResourceClaimTemplate of this namespace from
	// which every pod gets a claim for the rail's device. Needed by DRA.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="resourceClaimTemplate must be the name of a ResourceClaimTemplate in this namespace: write lower-case letters, digits, '-' and '.', for example rail0"
	ResourceClaimTemplate string `json:"resourceClaimTemplate,omitempty"`

	// request is the request of the template that stands for this rail, where the
	// template has several. Rails of a group that name the same template and a
	// request each share one claim, so that the template's constraints, such as
	// one NUMA node for all devices, hold between them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="request must be the name of a request in the ResourceClaimTemplate: write for example nic0"
	Request string `json:"request,omitempty"`

	// device is the RDMA device to open, as `ibv_devices` lists it, for example
	// mlx5_0. Needed by HostNetwork, except with transport TCP, which opens none.
	// Left out: the node opens the devices that the pod was given.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][-A-Za-z0-9_.]*$')",message="device must be the name of an RDMA device as ibv_devices lists it: write for example mlx5_0"
	Device string `json:"device,omitempty"`
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
