// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package v1alpha1_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/internal/testenv"
)

// Every rule has one case that breaks it; the message must say what to write instead.
func TestInvalidSpecsAreRefused(t *testing.T) {
	const rdma = "spec: {transport: RDMA, memory: {pool: 1Gi}, "
	const provision = "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin, resourceName: r/a, network: net}, " +
		"{name: b, attachment: SharedDevicePlugin, resourceName: r/b, network: other/net}, " +
		"{name: v, attachment: SRIOV, resourceName: r/v, network: fast}], provision: {"
	tests := []struct {
		rule, name, spec, says string
	}{
		{"pool is required", "", "spec: {memory: {}}", "spec.memory.pool: Required value"},
		{"memory is required", "", "spec: {}", "spec.memory: Required value"},
		{"spec is required", "", "{}", "spec: Required value"},
		{"pool too small", "", "spec: {memory: {pool: 1Mi}}", "between 16Mi and 64Ti: write whole bytes with a unit"},
		{"pool too large", "", "spec: {memory: {pool: 1Ei}}", "between 16Mi and 64Ti"},
		{"pool of half a byte", "", "spec: {memory: {pool: '33554432500m'}}", "between 16Mi and 64Ti"},
		{"pool as a number", "", "spec: {memory: {pool: 5}}", "between 16Mi and 64Ti"},
		{"pool no quantity", "", "spec: {memory: {pool: lots}}", "spec.memory.pool"},
		{"pool no multiple of huge pages", "", "spec: {memory: {pool: 33Mi, hugePages: 2Mi}}",
			"multiple of memory.hugePages: round it"},
		{"pool no multiple of 1 GiB pages", "", "spec: {memory: {pool: 1536Mi, hugePages: 1Gi}}",
			"multiple of memory.hugePages: round it"},
		{"hugePages unknown", "", "spec: {memory: {pool: 1Gi, hugePages: 4Mi}}", `supported values: "None", "2Mi", "1Gi"`},
		{"part of a core", "", "spec: {memory: {pool: 1Gi}, resources: {cpu: 1500m}}", "whole number of cores"},
		{"no core", "", "spec: {memory: {pool: 1Gi}, resources: {cpu: 0}}", "whole number of cores"},
		{"little overhead", "", "spec: {memory: {pool: 1Gi}, resources: {memoryOverhead: 1Mi}}", "write for example 512Mi"},
		{"transport unknown", "", "spec: {transport: UDP, memory: {pool: 1Gi}}", `supported values: "TCP", "RDMA", "Auto"`},
		{"update strategy unknown", "", "spec: {memory: {pool: 1Gi}, update: {strategy: Recreate}}", `"RollingUpdate", "Drain", "OnDelete"`},
		{"drains, but nothing moves", "", "spec: {memory: {pool: 1Gi}, update: {strategy: Drain, drainBudget: 0}}", "or strategy: RollingUpdate to roll without"},
		{"nobody may be away", "", "spec: {memory: {pool: 1Gi}, update: {maxUnavailable: 0}}", "such as 2, or a percentage"},
		{"no share may be away", "", "spec: {memory: {pool: 1Gi}, update: {maxUnavailable: 0%}}", "such as 2, or a percentage"},
		{"a share without %", "", "spec: {memory: {pool: 1Gi}, update: {maxUnavailable: '2'}}", "such as 2, or a percentage"},
		{"how many by hand", "", "spec: {memory: {pool: 1Gi}, update: {strategy: OnDelete, maxUnavailable: 2}}", "or write strategy: RollingUpdate"},
		{"a fall by hand", "", "spec: {memory: {pool: 1Gi}, update: {strategy: OnDelete, maxHitRatioDrop: 2}}", "or write strategy: RollingUpdate"},
		{"less than nothing moves", "", "spec: {memory: {pool: 1Gi}, update: {drainBudget: -1Gi}}", "write whole bytes with a unit, for example 32Gi"},
		{"a part of a byte moves", "", "spec: {memory: {pool: 1Gi}, update: {drainBudget: 100m}}", "write whole bytes with a unit, for example 32Gi"},
		{"more than there is moves", "", "spec: {memory: {pool: 1Gi}, update: {drainBudget: 65Ti}}", "write whole bytes with a unit, for example 32Gi"},
		{"a fall of all", "", "spec: {memory: {pool: 1Gi}, update: {maxHitRatioDrop: 100}}", "less than or equal to 99"},
		{"mode unknown", "", "spec: {mode: Dry, memory: {pool: 1Gi}}", `supported values: "Apply", "Plan"`},
		{"layout unknown", "", "spec: {layout: PerPod, memory: {pool: 1Gi}}", `"PerNUMA", "PerRail", "PerNode"`},
		{"RDMA without rails", "", "spec: {transport: RDMA, memory: {pool: 1Gi}}", "or write transport: TCP"},
		{"RDMA with empty rails", "", rdma + "rails: []}", "or write transport: TCP"},
		{"many discovery hosts", "", "spec: {memory: {pool: 1Gi}, discovery: {replicas: 8}}", "less than or equal to 7"},
		{"no discovery host", "", "spec: {memory: {pool: 1Gi}, discovery: {replicas: 0}}", "greater than or equal to 1"},
		{"reserved port", "", "spec: {memory: {pool: 1Gi}, discovery: {port: 80}}", "greater than or equal to 1024"},
		{"interface at which nodes are reached", "", "spec: {memory: {pool: 1Gi}, discovery: {interface: 'a b'}}",
			"write for example rail0"},
		{"monitoring port", "", "spec: {memory: {pool: 1Gi}, monitoring: {port: 70000}}", "less than or equal to 65535"},
		{"monitor unknown", "", "spec: {memory: {pool: 1Gi}, monitoring: {scrape: Probe}}", `"None", "PodMonitor", "ServiceMonitor"`},
		{"rules unknown", "", "spec: {memory: {pool: 1Gi}, monitoring: {rules: All}}", `"None", "PrometheusRule"`},
		{"dashboards unknown", "", "spec: {memory: {pool: 1Gi}, monitoring: {dashboards: All}}", `"None", "ConfigMap"`},
		{"interval without unit", "", "spec: {memory: {pool: 1Gi}, monitoring: {interval: '15'}}", "spec.monitoring.interval"},
		{"equal ports", "", "spec: {memory: {pool: 1Gi}, discovery: {port: 4000}, monitoring: {port: 4000}}",
			"must differ: leave both out"},
		{"short member TTL", "", "spec: {memory: {pool: 1Gi}, timing: {memberTTLMilliseconds: 1499}}",
			"at least three times timing.heartbeatMilliseconds"},
		{"short lease", "", "spec: {memory: {pool: 1Gi}, timing: {leaseMilliseconds: 1}}", "greater than or equal to 100"},
		{"socket delivery unknown", "", "spec: {memory: {pool: 1Gi}, injection: {socket: NFS}}",
			`supported values: "HostPath", "CSI"`},
		{"client delivery unknown", "", "spec: {memory: {pool: 1Gi}, injection: {client: {delivery: Image}}}",
			`supported values: "InitContainer"`},
		{"pull policy unknown", "", "spec: {imagePullPolicy: Sometimes, memory: {pool: 1Gi}}",
			`supported values: "Always", "IfNotPresent", "Never"`},
		{"client pull policy unknown", "", "spec: {memory: {pool: 1Gi}, injection: {client: {imagePullPolicy: No}}}",
			`supported values: "Always", "IfNotPresent", "Never"`},
		{"TLS without Secret", "", "spec: {memory: {pool: 1Gi}, security: {tls: {}}}",
			"spec.security.tls.secretName: Required value"},
		{"Secret of another namespace", "", "spec: {memory: {pool: 1Gi}, security: {tls: {secretName: other/s}}}",
			"name of a Secret in this namespace"},
		{"peer name", "", "spec: {memory: {pool: 1Gi}, security: {tls: {secretName: s, peerName: '*.kv'}}}",
			"write for example kv.peercache.internal"},
		{"unknown field", "", "spec: {memory: {pool: 1Gi}, paused: true}", `unknown field "spec.paused"`},

		{"rail without attachment", "", rdma + "rails: [{name: a}]}", "rails[0].attachment: Required value"},
		{"rail with unknown attachment", "", rdma + "rails: [{name: a, attachment: PCI}]}",
			`"SharedDevicePlugin", "SRIOV", "HostNetwork", "DRA"`},
		{"DRA without template", "", rdma + "rails: [{name: a, attachment: DRA}]}", "resourceClaimTemplate: rail0"},
		{"DRA with a resource", "", rdma + "rails: [{name: a, attachment: DRA, resourceClaimTemplate: t, resourceName: r/a}]}",
			"remove resourceName and device"},
		{"DRA with a device", "", rdma + "rails: [{name: a, attachment: DRA, resourceClaimTemplate: t, device: mlx5_0}]}",
			"remove resourceName and device"},
		{"template with another attachment", "", rdma + "rails: [{name: a, attachment: HostNetwork, device: x, " +
			"resourceClaimTemplate: t}]}", "write attachment: DRA, or remove them"},
		{"request with another attachment", "", rdma + "rails: [{name: a, attachment: HostNetwork, device: x, request: r}]}",
			"write attachment: DRA, or remove them"},
		{"bad template", "", rdma + "rails: [{name: a, attachment: DRA, resourceClaimTemplate: ns/t}]}",
			"name of a ResourceClaimTemplate in this namespace"},
		{"bad request", "", rdma + "rails: [{name: a, attachment: DRA, resourceClaimTemplate: t, request: A}]}",
			"write for example nic0"},
		{"addresses without network", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, resourceName: r/a, " +
			"ips: [10.0.0.1/24]}]}", "or remove ips and mac"},
		{"MAC without network", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, resourceName: r/a, " +
			"mac: '02:00:00:00:00:01'}]}", "or remove ips and mac"},
		{"address without length", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, resourceName: r/a, " +
			"network: net, ips: [10.0.0.1]}]}", "192.168.10.5/24"},
		{"bad MAC", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, resourceName: r/a, network: net, " +
			"mac: '02:00:00:00:00:0G'}]}", "write for example 02:00:00:00:00:01"},
		{"pool without selector", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: a}]}",
			"spec.nodePools[0].selector: Required value"},
		{"pool with empty selector", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: a, selector: {}}]}",
			"should have at least 1 properties"},
		{"no pools", "", "spec: {memory: {pool: 1Gi}, nodePools: []}", "at least 1 items"},
		{"name of a pool", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: GPU, selector: {a: b}}]}",
			"write for example gpu"},
		{"pool with unknown rail", "", rdma + "rails: [{name: a, attachment: HostNetwork, device: x}], " +
			"nodePools: [{name: p, selector: {a: b}, rails: [a, z]}]}", "names a rail that the cluster does not have"},
		{"pool with rails of nobody", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: p, selector: {a: b}, rails: [z]}]}",
			"names a rail that the cluster does not have"},
		{"RDMA with a pool without rails", "", rdma + "rails: [{name: a, attachment: HostNetwork, device: x}], " +
			"nodePools: [{name: p, selector: {a: b}, rails: [a]}, {name: q, selector: {c: d}}]}", "write transport: Auto"},
		{"plug-in for a rail of nobody", "", provision + "devicePlugin: {resources: [{rail: z, selectors: {vendors: [15b3]}}]}}}",
			"rail with attachment SharedDevicePlugin"},
		{"plug-in for a virtual function", "", provision + "devicePlugin: {resources: [{rail: v, selectors: {vendors: [15b3]}}]}}}",
			"rail with attachment SharedDevicePlugin"},
		{"plug-in without selectors", "", provision + "devicePlugin: {resources: [{rail: a, selectors: {}}]}}}",
			"write for example interfaces: [ens1f0np0]"},
		{"plug-in without resources", "", provision + "devicePlugin: {resources: []}}}", "at least 1 items"},
		{"vendor in capitals", "", provision + "devicePlugin: {resources: [{rail: a, selectors: {vendors: [15B3]}}]}}}",
			"^[0-9a-f]{4}$"},
		{"network of a rail of nobody", "", provision + "networks: [{rail: z, type: Macvlan, interface: e, ipam: {range: 10.0.0.0/24}}]}}",
			"must be a rail that names its network"},
		{"network elsewhere", "", provision + "networks: [{rail: b, type: Macvlan, interface: e, ipam: {range: 10.0.0.0/24}}]}}",
			"without a namespace"},
		{"SR-IOV network of another rail", "", provision + "networks: [{rail: a, type: SRIOV, ipam: {range: 10.0.0.0/24}}]}}",
			"belongs to rails with attachment SRIOV"},
		{"macvlan for a virtual function", "",
			provision + "networks: [{rail: v, type: Macvlan, interface: e, ipam: {range: 10.0.0.0/24}}]}}",
			"belongs to rails with attachment SRIOV"},
		{"macvlan without port", "", provision + "networks: [{rail: a, type: Macvlan, ipam: {range: 10.0.0.0/24}}]}}",
			"write for example interface: ens1f0np0"},
		{"SR-IOV with port", "", provision + "networks: [{rail: v, type: SRIOV, interface: e, ipam: {range: 10.0.0.0/24}}]}}",
			"or remove it"},
		{"MTU of the port itself", "",
			provision + "networks: [{rail: a, type: HostDevice, interface: e, mtu: 9000, ipam: {range: 10.0.0.0/24}}]}}",
			"set the MTU of the port itself"},
		{"network without range", "", provision + "networks: [{rail: a, type: Macvlan, interface: e, ipam: {}}]}}",
			"write for example range: 192.168.10.0/24"},
		{"static with range", "",
			provision + "networks: [{rail: a, type: Macvlan, interface: e, ipam: {type: Static, range: 10.0.0.0/24}}]}}",
			"or remove it"},
		{"exclusion on one machine", "", provision + "networks: [{rail: a, type: Macvlan, interface: e, " +
			"ipam: {type: HostLocal, range: 10.0.0.0/24, exclude: [10.0.0.0/30]}}]}}", "or write type: Whereabouts"},
		{"bad range", "", provision + "networks: [{rail: a, type: Macvlan, interface: e, ipam: {range: 10.0.0.1}}]}}",
			"ipam.range must be a network"},
		{"bad exclusion", "", provision + "networks: [{rail: a, type: Macvlan, interface: e, " +
			"ipam: {range: 10.0.0.0/24, exclude: [x]}}]}}", "ipam.exclude must hold networks"},
		{"small pool of a node pool", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: p, selector: {a: b}, " +
			"memory: {pool: 1Mi}}]}", "between 16Mi and 64Ti"},
		{"two rails of one name", "", rdma + "rails: [{name: a, attachment: HostNetwork, device: x}, " +
			"{name: a, attachment: HostNetwork, device: z}]}", "Duplicate value"},
		{"shared device without resource", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin}]}",
			"resourceName: rdma/hca_shared_devices_a, or, for a network that carries pages by TCP, attachment: Network"},
		{"SR-IOV without network", "", rdma + "rails: [{name: a, attachment: SRIOV, resourceName: n/a}]}",
			"attachment SRIOV needs resourceName and network"},
		{"SR-IOV with device", "", rdma + "rails: [{name: a, attachment: SRIOV, resourceName: n/a, network: net, device: x}]}",
			"remove device"},
		{"network without a name", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network}]}", "network: default/rail0"},
		{"network with a resource", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: net, resourceName: r/a}]}",
			"remove resourceName and device"},
		{"network with a device", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: net, device: x}]}",
			"remove resourceName and device"},
		{"network with a claim", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: net, " +
			"resourceClaimTemplate: t}]}", "write attachment: DRA, or remove them"},
		{"network with RDMA", "", rdma + "rails: [{name: a, attachment: Network, network: net}]}", "brings no RDMA device: write transport: TCP"},
		{"network where RDMA is tried", "", "spec: {transport: Auto, memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: net}, " +
			"{name: b, attachment: HostNetwork, device: x}]}", "brings no RDMA device: write transport: TCP"},
		{"SR-IOV network of a rail without a device", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: net}], " +
			"provision: {networks: [{rail: a, type: SRIOV, ipam: {range: 10.0.0.0/24}}]}}", "type SRIOV belongs to rails with attachment SRIOV"},
		{"plug-in for a rail without a device", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: net}], " +
			"provision: {devicePlugin: {resources: [{rail: a, selectors: {vendors: [15b3]}}]}}}", "must be a rail with attachment SharedDevicePlugin"},
		{"host without device", "", rdma + "rails: [{name: a, attachment: HostNetwork}]}", "device: mlx5_0"},
		{"host without device where RDMA is tried", "", "spec: {transport: Auto, memory: {pool: 1Gi}, rails: [{name: a, attachment: HostNetwork, " +
			"device: x}, {name: b, attachment: HostNetwork}]}", "over the machine's network by TCP, transport: TCP"},
		{"host with network", "", rdma + "rails: [{name: a, attachment: HostNetwork, device: x, network: net}]}",
			"remove network and interface"},
		{"interface without network", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, resourceName: r/a, " +
			"interface: net1}]}", "add network"},
		{"NUMA node and group", "", rdma + "rails: [{name: a, attachment: HostNetwork, device: x, numaNode: 0, group: g}]}",
			"remove numaNode"},
		{"NUMA node under another layout", "", "spec: {transport: RDMA, layout: PerRail, memory: {pool: 1Gi}, " +
			"rails: [{name: a, attachment: HostNetwork, device: x, numaNode: 0}]}", "remove numaNode"},
		{"NUMA node of some rails", "", rdma + "rails: [{name: a, attachment: HostNetwork, device: x, numaNode: 0}, " +
			"{name: b, attachment: HostNetwork, device: z}]}", "add the missing rails[].numaNode"},
		{"NUMA node out of range", "", rdma + "rails: [{name: a, attachment: HostNetwork, device: x, numaNode: -1}]}",
			"greater than or equal to 0"},
		{"name of a rail", "", rdma + "rails: [{name: Rail_0, attachment: HostNetwork, device: x}]}", "write for example rail0"},
		{"name of a group", "", rdma + "rails: [{name: a, group: NUMA0, attachment: HostNetwork, device: x}]}",
			"write for example numa0"},
		{"long name of a group", "", rdma + "rails: [{name: a, group: " + strings.Repeat("g", 21) +
			", attachment: HostNetwork, device: x}]}", "may not be more than 20"},
		{"resource without domain", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, resourceName: hca}]}",
			"extended resource with a domain"},
		{"bad network", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, resourceName: r/a, network: a/b/c}]}",
			"name or namespace/name"},
		{"bad interface", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, resourceName: r/a, network: net, " +
			"interface: 'a b'}]}", "name of a network interface"},
		{"bad device", "", rdma + "rails: [{name: a, attachment: HostNetwork, device: 'a,b'}]}", "ibv_devices lists it"},

		{"memory of nobody", "", "spec: {memory: {pool: 1Gi}, injection: {memory: {pool: 1Gi}}}",
			"write injection.mode: Sidecar or Embedded, or remove it"},
		{"small memory of a sidecar", "", "spec: {memory: {pool: 1Gi}, injection: {mode: Sidecar, memory: {pool: 1Mi}}}",
			"between 16Mi and 64Ti"},
		{"resources of nobody", "", "spec: {memory: {pool: 1Gi}, injection: {resources: {cpu: 1}}}", "write injection.mode: Sidecar, or remove them"},
		{"little of a core for a sidecar", "", "spec: {memory: {pool: 1Gi}, injection: {mode: Sidecar, resources: {cpu: 50m}}}",
			"between 100m and 1024 cores"},
		{"little overhead of a sidecar", "", "spec: {memory: {pool: 1Gi}, injection: {mode: Sidecar, resources: {memoryOverhead: 1Mi}}}",
			"write for example 512Mi"},
		{"embedded without a node", "", "spec: {memory: {pool: 1Gi}, injection: {mode: Embedded}}",
			"write injection.client.delivery: Preinstalled"},
		{"image of nothing", "", "spec: {memory: {pool: 1Gi}, injection: {client: {delivery: Preinstalled, image: x}}}",
			"remove image, or write delivery: InitContainer or ImageVolume"},
		{"policy for sidecars", "", "spec: {memory: {pool: 1Gi}, injection: {by: AdmissionPolicy, mode: Sidecar}}",
			"write injection.mode: Node, or injection.by: Webhook"},
		{"policy for embedded nodes", "", "spec: {memory: {pool: 1Gi}, injection: {by: AdmissionPolicy, mode: Embedded, " +
			"client: {delivery: Preinstalled}}}", "write injection.mode: Node, or injection.by: Webhook"},
		{"injection by nobody", "", "spec: {memory: {pool: 1Gi}, injection: {by: None}}", `"Webhook", "AdmissionPolicy"`},
		{"mode of injection unknown", "", "spec: {memory: {pool: 1Gi}, injection: {mode: Pod}}", `"Node", "Sidecar", "Embedded"`},
		{"delivery unknown", "", "spec: {memory: {pool: 1Gi}, injection: {client: {delivery: Volume}}}",
			`"InitContainer", "ImageVolume", "Preinstalled"`},

		{"name too long", strings.Repeat("a", 41), "spec: {memory: {pool: 1Gi}}", "at most 40"},
		{"name begins with a digit", "1a", "spec: {memory: {pool: 1Gi}}", "beginning with a letter"},
		{"name with a dot", "a.b", "spec: {memory: {pool: 1Gi}}", "lower-case letters, digits and '-'"},
	}
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			name := test.name
			if name == "" {
				name = "demo"
			}
			object := manifest(t, namespace, name, test.spec)
			err := c.Create(t.Context(), object, client.FieldValidation("Strict"))
			if err == nil {
				if err := c.Delete(t.Context(), object); err != nil {
					t.Error(err)
				}
				t.Fatalf("accepted: %s", test.spec)
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("refused with\n%v\nwhich does not say %q", err, test.says)
			}
		})
	}
}

func TestValidSpecsAreAccepted(t *testing.T) {
	tests := []struct{ name, spec string }{
		{"longest name", "spec: {memory: {pool: 1Gi}}"},
		{"smallest pool", "spec: {memory: {pool: 16Mi}}"},
		{"decimal pool", "spec: {memory: {pool: 64M}}"},
		{"pool in bytes", "spec: {memory: {pool: 1073741824}}"},
		{"huge pages", "spec: {memory: {pool: 3Gi, hugePages: 1Gi}}"},
		{"drains with the usual budget", "spec: {memory: {pool: 1Gi}, update: {strategy: Drain}}"},
		{"drains within a budget", "spec: {memory: {pool: 1Gi}, update: {strategy: Drain, drainBudget: 1Gi, maxUnavailable: 2, maxHitRatioDrop: 2}}"},
		{"rolls without moving anything", "spec: {memory: {pool: 1Gi}, update: {strategy: RollingUpdate, drainBudget: 0}}"},
		{"cores as a number", "spec: {memory: {pool: 1Gi}, resources: {cpu: 4}}"},
		{"a network for TCP, and nothing else", "spec: {memory: {pool: 1Gi}, discovery: {interface: rail0}, rails: [{name: a, " +
			"attachment: Network, network: net, interface: rail0, ips: [10.0.0.1/24]}], provision: {networks: [{rail: a, type: Macvlan, " +
			"interface: e, ipam: {type: Static}}]}}"},
		{"rails with TCP", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: HostNetwork, device: mlx5_0}]}"},
		{"the machine's network with TCP", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: HostNetwork}]}"},
		{"shared device on the host", "spec: {transport: RDMA, memory: {pool: 1Gi}, rails: [{name: a, " +
			"attachment: HostNetwork, device: mlx5_0, resourceName: rdma/a}]}"},
		{"SR-IOV", "spec: {transport: RDMA, memory: {pool: 1Gi}, rails: [{name: a, attachment: SRIOV, " +
			"resourceName: nvidia.com/rail_0, network: net-a/rail0, interface: rail0}]}"},
		{"NUMA nodes and groups mixed", "spec: {transport: RDMA, memory: {pool: 1Gi}, rails: [" +
			"{name: a, attachment: HostNetwork, device: mlx5_0, numaNode: 1}, " +
			"{name: b, attachment: HostNetwork, device: mlx5_1, group: g}]}"},
		{"DRA", "spec: {transport: RDMA, memory: {pool: 1Gi}, rails: [{name: a, attachment: DRA, " +
			"resourceClaimTemplate: nics.v1, request: nic0, network: net}]}"},
		{"addresses", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin, resourceName: r/a, " +
			"network: net, ips: [10.0.0.1/24, 'fd00::1/64'], mac: '02:00:00:00:00:01'}]}"},
		{"pools with rails and without", "spec: {transport: Auto, memory: {pool: 1Gi}, " +
			"rails: [{name: a, attachment: HostNetwork, device: x}], nodePools: [{name: p, selector: {a: b}, rails: [a]}, " +
			"{name: q, selector: {c: d}, memory: {pool: 2Gi}, resources: {cpu: 2}}]}"},
		{"sidecar", "spec: {memory: {pool: 1Gi}, injection: {mode: Sidecar, memory: {pool: 2Gi, hugePages: 1Gi}, resources: {cpu: 500m}, " +
			"client: {delivery: ImageVolume, image: x}}}"},
		{"embedded", "spec: {memory: {pool: 1Gi}, injection: {mode: Embedded, memory: {pool: 2Gi}, client: {delivery: Preinstalled}}}"},
		{"admission policy", "spec: {memory: {pool: 1Gi}, injection: {by: AdmissionPolicy, client: {delivery: ImageVolume}}}"},
		{"namespace selector", "spec: {memory: {pool: 1Gi}, injection: {namespaceSelector: {matchLabels: {a: b}}}}"},
	}
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := manifest(t, namespace, strings.Repeat("a", 40), test.spec)
			if err := c.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
				t.Fatal(err)
			}
			if err := c.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestLayoutCannotBeChanged(t *testing.T) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	object := manifest(t, namespace, "demo", "spec: {memory: {pool: 1Gi}}")
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	for _, patch := range []string{`{"spec":{"layout":"PerRail"}}`} {
		err := c.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch)))
		if err == nil || !strings.Contains(err.Error(), "create a second PeerCacheCluster") {
			t.Errorf("%s gave %v", patch, err)
		}
	}
	err := c.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"image":"x:2","memory":{"pool":"2Gi"},"discovery":{"replicas":1}}}`)))
	if err != nil {
		t.Errorf("other fields can be changed: %v", err)
	}
}
