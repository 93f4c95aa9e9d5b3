// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ProvisionSpec is what the operator makes besides the members, so that rails have what they need.
type ProvisionSpec struct {
	// devicePlugin runs k8s-rdma-shared-dev-plugin on the machines with rails, so
	// that they offer the resources of rails with attachment SharedDevicePlugin.
	// A machine must run it once only: leave this out where one runs already.
	// +optional
	DevicePlugin *DevicePluginSpec `json:"devicePlugin,omitempty"`

	// networks makes the NetworkAttachmentDefinitions that rails name, in this
	// namespace. Multus must be installed, and the operator must be allowed to make
	// them (rbac.networks of the Helm chart, or config/rights/networks).
	// +optional
	// +listType=map
	// +listMapKey=rail
	// +kubebuilder:validation:MaxItems=32
	Networks []ProvisionedNetwork `json:"networks,omitempty"`
}

// DevicePluginSpec is a device plugin for shared RDMA devices.
type DevicePluginSpec struct {
	// image of k8s-rdma-shared-dev-plugin.
	// +optional
	// +kubebuilder:default="ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// resources lists the ports of a machine behind the resource of each rail.
	// +required
	// +listType=map
	// +listMapKey=rail
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Resources []SharedResource `json:"resources"`
}

// SharedResource is the resource of one rail.
type SharedResource struct {
	// rail whose resourceName is offered.
	// +required
	// +kubebuilder:validation:MaxLength=20
	Rail string `json:"rail"`

	// selectors choose the ports.
	// +required
	Selectors PortSelectors `json:"selectors"`

	// shares is how many pods of a machine may have the resource at once.
	// +optional
	// +kubebuilder:default=63
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Shares int32 `json:"shares,omitempty"`
}

// PortSelectors choose network ports of a machine. A port must match every list that is given, by any of its
// elements.
//
// +kubebuilder:validation:XValidation:rule="has(self.interfaces) || has(self.vendors) || has(self.deviceIDs) || has(self.drivers)",message="selectors must name interfaces, vendors, deviceIDs or drivers: write for example interfaces: [ens1f0np0]"
type PortSelectors struct {
	// interfaces by name, for example ens1f0np0.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=15
	Interfaces []string `json:"interfaces,omitempty"`

	// vendors by PCI vendor id, for example 15b3.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{4}$`
	Vendors []string `json:"vendors,omitempty"`

	// deviceIDs by PCI device id, for example 1021.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{4}$`
	DeviceIDs []string `json:"deviceIDs,omitempty"`

	// drivers by name, for example mlx5_core.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Drivers []string `json:"drivers,omitempty"`
}

// ProvisionedNetwork is a NetworkAttachmentDefinition. Its name is the rail's network.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'SRIOV') != has(self.interface)",message="interface is the machine's port for types Macvlan, IPVLAN and HostDevice, which need it, and is chosen by the device plugin for SRIOV: write for example interface: ens1f0np0, or remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.mtu) || self.type == 'Macvlan' || self.type == 'IPVLAN'",message="mtu belongs to types Macvlan and IPVLAN: remove it and set the MTU of the port itself"
type ProvisionedNetwork struct {
	// rail whose network is made. It names its network without a namespace.
	// +required
	// +kubebuilder:validation:MaxLength=20
	Rail string `json:"rail"`

	// type of the interface in the pod. Macvlan and IPVLAN: a virtual interface on
	// the machine's port. HostDevice: the port itself, which the machine loses.
	// SRIOV: a virtual function, for rails with that attachment.
	// +required
	Type NetworkType `json:"type"`

	// interface of the machine, for example ens1f0np0.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][-A-Za-z0-9_.]*$`
	Interface string `json:"interface,omitempty"`

	// mtu of the interface in the pod. Left out: that of the machine's port.
	// +optional
	// +kubebuilder:validation:Minimum=1280
	// +kubebuilder:validation:Maximum=9216
	MTU int32 `json:"mtu,omitempty"`

	// ipam gives the interface its addresses.
	// +required
	IPAM IPAMSpec `json:"ipam"`
}

// NetworkType is the CNI plugin of a network.
// +kubebuilder:validation:Enum=Macvlan;IPVLAN;HostDevice;SRIOV
type NetworkType string

// The types of networks.
const (
	NetworkMacvlan    NetworkType = "Macvlan"
	NetworkIPVLAN     NetworkType = "IPVLAN"
	NetworkHostDevice NetworkType = "HostDevice"
	NetworkSRIOV      NetworkType = "SRIOV"
)

// IPAMSpec is where addresses come from.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'Static') != has(self.range)",message="ipam.range is needed by types Whereabouts and HostLocal, and Static takes the addresses from rails[].network.ips: write for example range: 192.168.10.0/24, or remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.exclude) || self.type == 'Whereabouts'",message="ipam.exclude belongs to type Whereabouts: remove it, or write type: Whereabouts"
type IPAMSpec struct {
	// type of the allocator. Whereabouts: one range for all machines, which needs
	// whereabouts. HostLocal: each machine counts by itself, so a range suits one
	// machine. Static: the addresses of
	// rails[].network.ips.
	// +optional
	// +kubebuilder:default=Whereabouts
	Type IPAMType `json:"type,omitempty"`

	// range of addresses, for example 192.168.10.0/24.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="ipam.range must be a network: write for example 192.168.10.0/24"
	Range string `json:"range,omitempty"`

	// exclude keeps parts of the range free, each a network.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(r, isCIDR(r))",message="ipam.exclude must hold networks: write for example 192.168.10.0/30"
	Exclude []string `json:"exclude,omitempty"`

	// routes lead from the interface to the subnets of other rails, so that members of
	// different groups read from each other by RDMA. Needed where rails have one subnet
	// each and layout is PerNUMA or PerRail.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Routes []Route `json:"routes,omitempty"`
}

// Route is a way to another subnet.
type Route struct {
	// destination is a network, for example 192.168.11.0/24.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="routes[].destination must be a network: write for example 192.168.11.0/24"
	Destination string `json:"destination"`

	// gateway is the router's address in the subnet of the interface, for example
	// 192.168.10.1.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="routes[].gateway must be an address: write for example 192.168.10.1"
	Gateway string `json:"gateway"`
}

// IPAMType is an allocator of addresses.
// +kubebuilder:validation:Enum=Whereabouts;HostLocal;Static
type IPAMType string

// The allocators.
const (
	IPAMWhereabouts IPAMType = "Whereabouts"
	IPAMHostLocal   IPAMType = "HostLocal"
	IPAMStatic      IPAMType = "Static"
)
