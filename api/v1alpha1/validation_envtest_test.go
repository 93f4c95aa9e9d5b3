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
	const provision = "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: net}}, " +
		"{name: b, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/b}, network: {name: other/net}}, " +
		"{name: v, attachment: SRIOV, sriov: {resourceName: r/v}, network: {name: fast}}], provision: {"
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
		{"pool in a relative folder", "", "spec: {memory: {pool: 1Gi, hostPath: run/pool}}", "memory.hostPath must be the absolute path of a folder"},
		{"pool on the machine itself", "", "spec: {memory: {pool: 1Gi, hostPath: /}}", "not / itself"},
		{"pool in a folder above", "", "spec: {memory: {pool: 1Gi, hostPath: /run/../etc}}", "without commas, spaces or '..'"},
		{"pool in a folder with a space", "", "spec: {memory: {pool: 1Gi, hostPath: '/run/my pool'}}", "without commas, spaces or '..'"},
		{"pool in two folders", "", "spec: {memory: {pool: 1Gi, hostPath: '/run/a,/run/b'}}", "write for example /run/peercache-pool"},
		{"pool in a folder with a slash behind", "", "spec: {memory: {pool: 1Gi, hostPath: /run/pool/}}", "write for example /run/peercache-pool"},
		{"pool in no folder", "", "spec: {memory: {pool: 1Gi, hostPath: ''}}", "write for example /run/peercache-pool"},
		{"file of gigabyte pages", "", "spec: {memory: {pool: 3Gi, hugePages: 1Gi, hostPath: /mnt/huge}}",
			"write hugePages: 2Mi or None, or remove hostPath"},
		{"file of a pool's gigabyte pages", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: p, selector: {a: b}, " +
			"memory: {pool: 3Gi, hugePages: 1Gi, hostPath: /mnt/huge}}]}", "write hugePages: 2Mi or None, or remove hostPath"},
		{"folder of a sidecar", "", "spec: {memory: {pool: 1Gi}, injection: {mode: Sidecar, memory: {pool: 1Gi, hostPath: /run/pool}}}",
			"remove hostPath, or write it in spec.memory"},
		{"hugePages unknown", "", "spec: {memory: {pool: 1Gi, hugePages: 4Mi}}", `supported values: "None", "2Mi", "1Gi"`},
		{"little of a core", "", "spec: {memory: {pool: 1Gi}, resources: {cpu: 99m}}", "between 100m and 1024 cores"},
		{"no core", "", "spec: {memory: {pool: 1Gi}, resources: {cpu: 0}}", "between 100m and 1024 cores"},
		{"too many cores", "", "spec: {memory: {pool: 1Gi}, resources: {cpu: 1025}}", "between 100m and 1024 cores"},
		{"little overhead", "", "spec: {memory: {pool: 1Gi}, resources: {memoryOverhead: 1Mi}}", "write for example 512Mi"},
		{"transport unknown", "", "spec: {transport: UDP, memory: {pool: 1Gi}}", `supported values: "TCP", "RDMA", "Auto"`},
		{"update strategy unknown", "", "spec: {memory: {pool: 1Gi}, update: {strategy: Recreate}}", `"RollingUpdate", "InPlace", "OnDelete"`},
		{"nobody may be away", "", "spec: {memory: {pool: 1Gi}, update: {maxUnavailable: 0}}", "such as 2, or a percentage"},
		{"no share may be away", "", "spec: {memory: {pool: 1Gi}, update: {maxUnavailable: 0%}}", "such as 2, or a percentage"},
		{"a share without %", "", "spec: {memory: {pool: 1Gi}, update: {maxUnavailable: '2'}}", "such as 2, or a percentage"},
		{"how many by hand", "", "spec: {memory: {pool: 1Gi}, update: {strategy: OnDelete, maxUnavailable: 2}}", "or write strategy: InPlace"},
		{"a fall by hand", "", "spec: {memory: {pool: 1Gi}, update: {strategy: OnDelete, maxHitRatioDrop: 2}}", "or write strategy: InPlace"},
		{"little host memory for vLLM", "", "spec: {memory: {pool: 1Gi}, engines: {vllm: {hostMemory: 255Mi}}}", "write whole bytes with a unit, for example 8Gi"},
		{"holds no pod out", "", "spec: {memory: {pool: 1Gi}, injection: {holdout: 0%}}", "must be a percentage from 1% to 50%: write for example 10%"},
		{"holds most pods out", "", "spec: {memory: {pool: 1Gi}, injection: {holdout: 51%}}", "must be a percentage from 1% to 50%"},
		{"holds a number out", "", "spec: {memory: {pool: 1Gi}, injection: {holdout: 10}}", "must be of type string"},
		{"a policy that draws lots", "", "spec: {memory: {pool: 1Gi}, injection: {holdout: 10%, by: AdmissionPolicy}}", "injection.holdout draws lots"},
		{"more host memory for vLLM than there is", "", "spec: {memory: {pool: 1Gi}, engines: {vllm: {hostMemory: 65Ti}}}", "engines.vllm.hostMemory must lie between"},
		{"less than nothing moves", "", "spec: {memory: {pool: 1Gi}, update: {drainBudget: -1Gi}}", "write whole bytes with a unit, for example 32Gi"},
		{"a part of a byte moves", "", "spec: {memory: {pool: 1Gi}, update: {drainBudget: 100m}}", "write whole bytes with a unit, for example 32Gi"},
		{"more than there is moves", "", "spec: {memory: {pool: 1Gi}, update: {drainBudget: 65Ti}}", "write whole bytes with a unit, for example 32Gi"},
		{"a fall of all", "", "spec: {memory: {pool: 1Gi}, update: {maxHitRatioDrop: 100}}", "less than or equal to 99"},
		{"mode unknown", "", "spec: {mode: Dry, memory: {pool: 1Gi}}", `supported values: "Apply", "Plan"`},
		{"sharing unknown", "", "spec: {sharing: All, memory: {pool: 1Gi}}", `supported values: "Namespace", "Cluster"`},
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
		{"peers unknown", "", "spec: {memory: {pool: 1Gi}, security: {peers: All}}", `supported values: "Token", "Insecure"`},
		{"a token that nobody asks for", "", "spec: {memory: {pool: 1Gi}, security: {peers: Insecure, token: {secretName: s}}}",
			"remove security.token, or write security.peers: Token"},
		{"token without Secret", "", "spec: {memory: {pool: 1Gi}, security: {token: {}}}",
			"spec.security.token.secretName: Required value"},
		{"token of another namespace", "", "spec: {memory: {pool: 1Gi}, security: {token: {secretName: other/s}}}",
			"write for example kv-peers-token"},
		{"unknown field", "", "spec: {memory: {pool: 1Gi}, paused: true}", `unknown field "spec.paused"`},

		{"rail without attachment", "", rdma + "rails: [{name: a}]}", "rails[0].attachment: Required value"},
		{"rail with unknown attachment", "", rdma + "rails: [{name: a, attachment: PCI}]}",
			`"SharedDevicePlugin", "SRIOV", "HostNetwork", "DRA"`},
		{"DRA without its settings", "", rdma + "rails: [{name: a, attachment: DRA}]}", "dra: {resourceClaimTemplate: rail0} with DRA"},
		{"DRA without template", "", rdma + "rails: [{name: a, attachment: DRA, dra: {request: r}}]}",
			"rails[0].dra.resourceClaimTemplate: Required value"},
		{"DRA with a shared device", "", rdma + "rails: [{name: a, attachment: DRA, dra: {resourceClaimTemplate: t}, " +
			"sharedDevicePlugin: {resourceName: r/a}}]}", "settings of its attachment and of no other"},
		{"claim with another attachment", "", rdma + "rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: x}, " +
			"dra: {resourceClaimTemplate: t}}]}", "settings of its attachment and of no other"},
		{"shared device without its settings", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin}]}",
			"sharedDevicePlugin: {resourceName: rdma/hca_shared_devices_a} with attachment SharedDevicePlugin"},
		{"shared device without resource", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {device: mlx5_0}}]}",
			"rails[0].sharedDevicePlugin.resourceName: Required value"},
		{"virtual function without its settings", "", rdma + "rails: [{name: a, attachment: SRIOV, network: {name: net}}]}",
			"sriov: {resourceName: nvidia.com/rail0} with SRIOV"},
		{"virtual function without network", "", rdma + "rails: [{name: a, attachment: SRIOV, sriov: {resourceName: n/a}}]}",
			"attachments SRIOV and Network need it, write for example network: {name: default/rail0}"},
		{"virtual function with a device", "", rdma + "rails: [{name: a, attachment: SRIOV, sriov: {resourceName: n/a, device: x}, network: {name: net}}]}",
			`unknown field "spec.rails[0].sriov.device"`},
		{"network without a name", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: {interface: net0}}]}",
			"rails[0].network.name: Required value"},
		{"network without itself", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network}]}", "network: {name: default/rail0}"},
		{"network with a device", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: {name: net}, " +
			"sharedDevicePlugin: {resourceName: r/a}}]}", "none of them with Network, and remove all other settings"},
		{"host with network", "", rdma + "rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: x}, network: {name: net}}]}",
			"remove network there"},
		{"device of the host with another attachment", "", rdma + "rails: [{name: a, attachment: SRIOV, sriov: {resourceName: n/a}, network: {name: net}, " +
			"hostNetwork: {device: x}}]}", "hostNetwork: {device: mlx5_0} with HostNetwork"},
		{"bad template", "", rdma + "rails: [{name: a, attachment: DRA, dra: {resourceClaimTemplate: ns/t}}]}",
			"name of a ResourceClaimTemplate in this namespace"},
		{"bad request", "", rdma + "rails: [{name: a, attachment: DRA, dra: {resourceClaimTemplate: t, request: A}}]}",
			"write for example nic0"},
		{"address without length", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: net, ips: [10.0.0.1]}}]}", "192.168.10.5/24"},
		{"bad MAC", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: net, mac: '02:00:00:00:00:0G'}}]}", "write for example 02:00:00:00:00:01"},
		{"pool without selector", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: a}]}",
			"spec.nodePools[0].selector: Required value"},
		{"pool with empty selector", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: a, selector: {}}]}",
			"should have at least 1 properties"},
		{"no pools", "", "spec: {memory: {pool: 1Gi}, nodePools: []}", "at least 1 items"},
		{"name of a pool", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: GPU, selector: {a: b}}]}",
			"write for example gpu"},
		{"pool with unknown rail", "", rdma + "rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: x}}], " +
			"nodePools: [{name: p, selector: {a: b}, rails: [a, z]}]}", "names a rail that the cluster does not have"},
		{"pool with rails of nobody", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: p, selector: {a: b}, rails: [z]}]}",
			"names a rail that the cluster does not have"},
		{"RDMA with a pool without rails", "", rdma + "rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: x}}], " +
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
			"must be a rail with a network in this namespace"},
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
		{"route to an address", "", provision + "networks: [{rail: a, type: Macvlan, interface: e, " +
			"ipam: {range: 10.0.0.0/24, routes: [{destination: 10.0.1.1, gateway: 10.0.0.1}]}}]}}", "routes[].destination must be a network"},
		{"route by a network", "", provision + "networks: [{rail: a, type: Macvlan, interface: e, " +
			"ipam: {range: 10.0.0.0/24, routes: [{destination: 10.0.1.0/24, gateway: 10.0.0.0/24}]}}]}}", "routes[].gateway must be an address"},
		{"small pool of a node pool", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: p, selector: {a: b}, " +
			"memory: {pool: 1Mi}}]}", "between 16Mi and 64Ti"},
		{"disk nowhere", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi}}", "write hostPath: [/mnt/nvme0/peercache], or volumeClaim"},
		{"disk here and there", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a], volumeClaim: {storageClassName: a}}}",
			"and remove the other"},
		{"disk without size", "", "spec: {memory: {pool: 1Gi}, disk: {hostPath: [/mnt/a]}}", "spec.disk.size: Required value"},
		{"no disk at all", "", "spec: {memory: {pool: 1Gi}, disk: {size: 0, hostPath: [/mnt/a]}}", "disk.size must lie between 1Gi and 64Ti"},
		{"small disk", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1023Mi, hostPath: [/mnt/a]}}", "disk.size must lie between 1Gi and 64Ti"},
		{"large disk", "", "spec: {memory: {pool: 1Gi}, disk: {size: 65Ti, hostPath: [/mnt/a]}}", "write whole bytes with a unit, for example 500Gi"},
		{"very large disk", "", "spec: {memory: {pool: 1Gi}, disk: {size: 9999999Ei, hostPath: [/mnt/a]}}", "disk.size must lie between 1Gi and 64Ti"},
		{"half a byte of disk", "", "spec: {memory: {pool: 1Gi}, disk: {size: '2147483648500m', hostPath: [/mnt/a]}}", "disk.size must lie between"},
		{"no folders", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: []}}", "at least 1 items"},
		{"a folder twice", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a, /mnt/a]}}", "Duplicate value"},
		{"many folders", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/0, /1, /2, /3, /4, /5, /6, /7, /8, /9, /10, /11, /12, /13, /14, /15, /16]}}",
			"at most 16 items"},
		{"relative folder", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [mnt/a]}}", "absolute paths of folders"},
		{"the machine itself", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/]}}", "not / itself"},
		{"folder above", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/../etc]}}", "without commas, spaces or '..'"},
		{"folder with a comma", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: ['/mnt/a,/mnt/b']}}", "without commas, spaces or '..'"},
		{"folder with a slash behind", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a/]}}", "write for example /mnt/nvme0/peercache"},
		{"one folder without a list", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: /mnt/a}}", "spec.disk.hostPath"},
		{"volume of no class", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, volumeClaim: {}}}",
			"spec.disk.volumeClaim.storageClassName: Required value"},
		{"class of a volume", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, volumeClaim: {storageClassName: Local_NVMe}}}",
			"write for example local-nvme"},
		{"no volumes", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, volumeClaim: {storageClassName: a, count: 0}}}", "greater than or equal to 1"},
		{"write budget of nothing", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a], writeBudget: '0.0'}}",
			`write for example "1", "0.3", 2Ti or unlimited`},
		{"large write budget", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a], writeBudget: '1001'}}", "up to 1000, or bytes a day"},
		{"write budget in decimal units", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a], writeBudget: 2T}}", "up to 1000, or bytes a day"},
		{"write budget as a number", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a], writeBudget: 1}}",
			"spec.disk.writeBudget in body must be of type string"},
		{"io unknown", "", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a], io: mmap}}", `"Auto", "IOURing", "AIO", "Threads"`},
		{"small disk of a pool", "", "spec: {memory: {pool: 1Gi}, nodePools: [{name: p, selector: {a: b}, disk: {size: 1Mi, hostPath: [/mnt/a]}}]}",
			"disk.size must lie between 1Gi and 64Ti"},
		{"traffic class out of range", "", "spec: {memory: {pool: 1Gi}, rdma: {trafficClass: 256}}", "less than or equal to 255"},
		{"service level out of range", "", "spec: {memory: {pool: 1Gi}, rdma: {serviceLevel: 16}}", "less than or equal to 15"},
		{"odd MTU", "", "spec: {memory: {pool: 1Gi}, rdma: {mtu: 1500}}", `"256", "512", "1024", "2048", "4096"`},
		{"index of a GID", "", "spec: {memory: {pool: 1Gi}, rdma: {gid: '3'}}", "rdma.gid must be IPv4, IPv6, an address or a subnet"},
		{"paging on demand", "", "spec: {memory: {pool: 1Gi}, rdma: {onDemandPaging: yes}}", "spec.rdma.onDemandPaging"},
		{"two rails of one name", "", rdma + "rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: x}}, " +
			"{name: a, attachment: HostNetwork, hostNetwork: {device: z}}]}", "Duplicate value"},
		{"network with RDMA", "", rdma + "rails: [{name: a, attachment: Network, network: {name: net}}]}", "brings no RDMA device: write transport: TCP"},
		{"network where RDMA is tried", "", "spec: {transport: Auto, memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: {name: net}}, " +
			"{name: b, attachment: HostNetwork, hostNetwork: {device: x}}]}", "brings no RDMA device: write transport: TCP"},
		{"SR-IOV network of a rail without a device", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: {name: net}}], " +
			"provision: {networks: [{rail: a, type: SRIOV, ipam: {range: 10.0.0.0/24}}]}}", "type SRIOV belongs to rails with attachment SRIOV"},
		{"plug-in for a rail without a device", "", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: {name: net}}], " +
			"provision: {devicePlugin: {resources: [{rail: a, selectors: {vendors: [15b3]}}]}}}", "must be a rail with attachment SharedDevicePlugin"},
		{"host without device", "", rdma + "rails: [{name: a, attachment: HostNetwork}]}", "device: mlx5_0"},
		{"host without device where RDMA is tried", "", "spec: {transport: Auto, memory: {pool: 1Gi}, rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: x}}, {name: b, attachment: HostNetwork}]}", "over the machine's network by TCP, transport: TCP"},
		{"NUMA node and group", "", rdma + "rails: [{name: a, attachment: HostNetwork, numaNode: 0, group: g, hostNetwork: {device: x}}]}",
			"remove numaNode"},
		{"NUMA node under another layout", "", "spec: {transport: RDMA, layout: PerRail, memory: {pool: 1Gi}, " +
			"rails: [{name: a, attachment: HostNetwork, numaNode: 0, hostNetwork: {device: x}}]}", "remove numaNode"},
		{"NUMA node of some rails", "", rdma + "rails: [{name: a, attachment: HostNetwork, numaNode: 0, hostNetwork: {device: x}}, " +
			"{name: b, attachment: HostNetwork, hostNetwork: {device: z}}]}", "add the missing rails[].numaNode"},
		{"NUMA node out of range", "", rdma + "rails: [{name: a, attachment: HostNetwork, numaNode: -1, hostNetwork: {device: x}}]}",
			"greater than or equal to 0"},
		{"name of a rail", "", rdma + "rails: [{name: Rail_0, attachment: HostNetwork, hostNetwork: {device: x}}]}", "write for example rail0"},
		{"name of a group", "", rdma + "rails: [{name: a, group: NUMA0, attachment: HostNetwork, hostNetwork: {device: x}}]}",
			"write for example numa0"},
		{"long name of a group", "", rdma + "rails: [{name: a, group: " + strings.Repeat("g", 21) +
			", attachment: HostNetwork, hostNetwork: {device: x}}]}", " 20"},
		{"resource without domain", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: hca}}]}",
			"extended resource with a domain"},
		{"bad network", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: a/b/c}}]}",
			"name or namespace/name"},
		{"bad interface", "", rdma + "rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: net, interface: 'a b'}}]}", "name of a network interface"},
		{"bad device", "", rdma + "rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: 'a,b'}}]}", "ibv_devices lists it"},

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
		{"pool in a folder", "spec: {memory: {pool: 1Gi, hostPath: /run/peercache-pool}, update: {strategy: OnDelete}}"},
		{"huge pages in a folder", "spec: {memory: {pool: 1Gi, hugePages: 2Mi, hostPath: /dev/hugepages}, injection: {mode: Sidecar}}"},
		{"drains within a budget", "spec: {memory: {pool: 1Gi}, update: {strategy: RollingUpdate, drainBudget: 1Gi, maxUnavailable: 2, maxHitRatioDrop: 2}}"},
		{"holds pods out", "spec: {memory: {pool: 1Gi}, injection: {holdout: 50%, mode: Sidecar}}"},
		{"gives vLLM host memory", "spec: {memory: {pool: 1Gi}, engines: {vllm: {hostMemory: 256Mi}}}"},
		{"rolls without moving anything", "spec: {memory: {pool: 1Gi}, update: {strategy: RollingUpdate, drainBudget: 0}}"},
		{"RDMA, tuned", "spec: {memory: {pool: 1Gi}, rdma: {trafficClass: 104, serviceLevel: 3, partitionKeyIndex: 1, gid: 10.1.0.0/16, mtu: 4096, " +
			"onDemandPaging: Enabled}, extraConfig: {log-level: debug, io-threads: '4'}}"},
		{"an address as GID", "spec: {memory: {pool: 1Gi}, rdma: {gid: 'fd00::1'}}"},
		{"shared cores", "spec: {memory: {pool: 1Gi}, resources: {cpu: 3500m}}"},
		{"cores as a number", "spec: {memory: {pool: 1Gi}, resources: {cpu: 4}}"},
		{"a network for TCP, and nothing else", "spec: {memory: {pool: 1Gi}, discovery: {interface: rail0}, rails: [{name: a, attachment: Network, network: {name: net, interface: rail0, ips: [10.0.0.1/24]}}], provision: {networks: [{rail: a, type: Macvlan, " +
			"interface: e, ipam: {type: Static}}]}}"},
		{"rails with TCP", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: mlx5_0}}]}"},
		{"the machine's network with TCP", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: HostNetwork}]}"},
		{"shared device on the host", "spec: {transport: RDMA, memory: {pool: 1Gi}, rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: mlx5_0, resourceName: rdma/a}}]}"},
		{"SR-IOV", "spec: {transport: RDMA, memory: {pool: 1Gi}, rails: [{name: a, attachment: SRIOV, sriov: {resourceName: nvidia.com/rail_0}, network: {name: net-a/rail0, interface: rail0}}]}"},
		{"NUMA nodes and groups mixed", "spec: {transport: RDMA, memory: {pool: 1Gi}, rails: [" +
			"{name: a, attachment: HostNetwork, numaNode: 1, hostNetwork: {device: mlx5_0}}, " +
			"{name: b, attachment: HostNetwork, group: g, hostNetwork: {device: mlx5_1}}]}"},
		{"DRA", "spec: {transport: RDMA, memory: {pool: 1Gi}, rails: [{name: a, attachment: DRA, dra: {resourceClaimTemplate: nics.v1, request: nic0}, network: {name: net}}]}"},
		{"addresses", "spec: {memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: net, ips: [10.0.0.1/24, 'fd00::1/64'], mac: '02:00:00:00:00:01'}}]}"},
		{"pools with rails and without", "spec: {transport: Auto, memory: {pool: 1Gi}, " +
			"rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: x}}], nodePools: [{name: p, selector: {a: b}, rails: [a]}, " +
			"{name: q, selector: {c: d}, memory: {pool: 2Gi}, resources: {cpu: 2}}]}"},
		{"folders", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/nvme0/peercache, /srv/kv-1.a_b], writeBudget: '0.3', io: Threads}}"},
		{"volumes", "spec: {memory: {pool: 1Gi}, disk: {size: 64Ti, volumeClaim: {storageClassName: local-nvme, count: 16}, writeBudget: 2Ti}}"},
		{"disk that may be written without end", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a], writeBudget: unlimited}}"},
		{"disk that may be written often", "spec: {memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a], writeBudget: '1000'}}"},
		{"disk of a pool", "spec: {memory: {pool: 1Gi}, nodePools: [{name: p, selector: {a: b}, disk: {size: 1Gi, hostPath: [/mnt/a]}}, " +
			"{name: q, selector: {c: d}}]}"},
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
