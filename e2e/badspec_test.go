// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
)

// badSpecs break one rule of the CRD each: the rule's message by how it begins, and a spec.
var badSpecs = map[string]string{
	"transport RDMA needs at least one entry in rails": "{transport: RDMA, memory: {pool: 1Gi}}",
	"rails[].numaNode chooses the group under layout: PerNUMA": "{layout: PerRail, memory: {pool: 1Gi}, " +
		"rails: [{name: a, attachment: HostNetwork, numaNode: 0, hostNetwork: {device: x}}]}",
	"under layout: PerNUMA either every rail": "{memory: {pool: 1Gi}, rails: [" +
		"{name: a, attachment: HostNetwork, numaNode: 0, hostNetwork: {device: x}}, {name: b, attachment: HostNetwork, hostNetwork: {device: z}}]}",
	"discovery.port and monitoring.port must differ":     "{memory: {pool: 1Gi}, discovery: {port: 4000}, monitoring: {port: 4000}}",
	"memory.pool must be a multiple of memory.hugePages": "{memory: {pool: 33Mi, hugePages: 2Mi}}",
	"memory.pool must lie between":                       "{memory: {pool: 1Mi}}",
	"memory.hostPath must be the absolute path":          "{memory: {pool: 1Gi, hostPath: run/pool}}",
	"memory.hostPath keeps the pool in a file":           "{memory: {pool: 1Gi, hugePages: 1Gi, hostPath: /mnt/huge}}",
	"engines.vllm.hostMemory must lie between 256Mi":     "{memory: {pool: 1Gi}, engines: {vllm: {hostMemory: 1Mi}}}",
	"injection.holdout must be a percentage from 1%":     "{memory: {pool: 1Gi}, injection: {holdout: 60%}}",
	"injection.holdout draws lots, which an admission":   "{memory: {pool: 1Gi}, injection: {holdout: 10%, by: AdmissionPolicy}}",
	"disk is in folders of the machines, or on volumes":  "{memory: {pool: 1Gi}, disk: {size: 1Gi}}",
	"disk.hostPath must hold absolute paths":             "{memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [mnt/a]}}",
	"disk.size must lie between 1Gi and 64Ti":            "{memory: {pool: 1Gi}, disk: {size: 1Mi, hostPath: [/mnt/a]}}",
	"disk.volumeClaim.storageClassName must be":          "{memory: {pool: 1Gi}, disk: {size: 1Gi, volumeClaim: {storageClassName: Local_NVMe}}}",
	"disk.writeBudget must be how often":                 "{memory: {pool: 1Gi}, disk: {size: 1Gi, hostPath: [/mnt/a], writeBudget: much}}",
	"routes[].destination must be a network": withProvision("networks: [{rail: a, type: Macvlan, interface: e, " +
		"ipam: {range: 10.0.0.0/24, routes: [{destination: 10.0.1.1, gateway: 10.0.0.1}]}}]"),
	"routes[].gateway must be an address": withProvision("networks: [{rail: a, type: Macvlan, interface: e, " +
		"ipam: {range: 10.0.0.0/24, routes: [{destination: 10.0.1.0/24, gateway: 10.0.0.0/24}]}}]"),
	"resources.cpu must lie between 100m and 1024 cores":             "{memory: {pool: 1Gi}, resources: {cpu: 50m}}",
	"resources.memoryOverhead must lie":                              "{memory: {pool: 1Gi}, resources: {memoryOverhead: 1Mi}}",
	secretRule + "kv-peers-tls":                                      "{memory: {pool: 1Gi}, security: {tls: {secretName: Kv_TLS}}}",
	secretRule + "kv-peers-token":                                    "{memory: {pool: 1Gi}, security: {token: {secretName: other/s}}}",
	"security.token is not used with":                                "{memory: {pool: 1Gi}, security: {peers: Insecure, token: {secretName: s}}}",
	"peerName must be a DNS name":                                    "{memory: {pool: 1Gi}, security: {tls: {secretName: kv-tls, peerName: '*.kv'}}}",
	"timing.memberTTLMilliseconds must be at least three times":      "{memory: {pool: 1Gi}, timing: {memberTTLMilliseconds: 1499}}",
	"a rail has the settings of its attachment":                      "{memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin}]}",
	"network is the interface that Multus gives":                     "{memory: {pool: 1Gi}, rails: [{name: a, attachment: Network}]}",
	"attachment Network brings no RDMA device":                       "{transport: RDMA, memory: {pool: 1Gi}, rails: [{name: a, attachment: Network, network: {name: net}}]}",
	"hostNetwork.device is missing":                                  "{transport: Auto, memory: {pool: 1Gi}, rails: [{name: a, attachment: HostNetwork}]}",
	"resourceClaimTemplate must be the name of":                      "{memory: {pool: 1Gi}, rails: [{name: a, attachment: DRA, dra: {resourceClaimTemplate: T}}]}",
	"request must be the name of a request":                          "{memory: {pool: 1Gi}, rails: [{name: a, attachment: DRA, dra: {resourceClaimTemplate: t, request: R}}]}",
	"ips must be addresses with the length":                          "{memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: net, ips: [10.0.0.1]}}]}",
	"mac must be six":                                                "{memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: net, mac: x}}]}",
	"provision.devicePlugin.resources[].rail must be":                withProvision("devicePlugin: {resources: [{rail: v, selectors: {vendors: [15b3]}}]}"),
	"selectors must name interfaces":                                 withProvision("devicePlugin: {resources: [{rail: a, selectors: {}}]}"),
	"provision.networks[].rail must be a rail":                       withProvision("networks: [{rail: z, type: Macvlan, interface: e, ipam: {range: 10.0.0.0/24}}]"),
	"provision.networks[].type SRIOV belongs to":                     withProvision("networks: [{rail: a, type: SRIOV, ipam: {range: 10.0.0.0/24}}]"),
	"interface is the machine's port":                                withProvision("networks: [{rail: a, type: Macvlan, ipam: {range: 10.0.0.0/24}}]"),
	"mtu belongs to types Macvlan and IPVLAN":                        withProvision("networks: [{rail: a, type: HostDevice, interface: e, mtu: 9000, ipam: {range: 10.0.0.0/24}}]"),
	"ipam.range is needed by":                                        withProvision("networks: [{rail: a, type: Macvlan, interface: e, ipam: {}}]"),
	"ipam.exclude belongs to type Whereabouts":                       withProvision("networks: [{rail: a, type: Macvlan, interface: e, ipam: {type: HostLocal, range: 10.0.0.0/24, exclude: [10.0.0.0/30]}}]"),
	"ipam.range must be a network":                                   withProvision("networks: [{rail: a, type: Macvlan, interface: e, ipam: {range: x}}]"),
	"ipam.exclude must hold networks":                                withProvision("networks: [{rail: a, type: Macvlan, interface: e, ipam: {range: 10.0.0.0/24, exclude: [x]}}]"),
	"injection.memory is the memory of a member inside":              "{memory: {pool: 1Gi}, injection: {memory: {pool: 1Gi}}}",
	"injection.memory.hostPath is for the cluster's own":             "{memory: {pool: 1Gi}, injection: {mode: Sidecar, memory: {pool: 1Gi, hostPath: /run/pool}}}",
	"injection.resources are those of the sidecar":                   "{memory: {pool: 1Gi}, injection: {mode: Embedded, client: {delivery: Preinstalled}, resources: {cpu: 1}}}",
	"injection.mode Embedded needs the package with a member":        "{memory: {pool: 1Gi}, injection: {mode: Embedded}}",
	"injection.by AdmissionPolicy connects SGLang pods":              "{memory: {pool: 1Gi}, injection: {by: AdmissionPolicy, mode: Sidecar}}",
	"injection.client.image is not used with delivery":               "{memory: {pool: 1Gi}, injection: {client: {delivery: Preinstalled, image: x}}}",
	"update.maxUnavailable and update.maxHitRatioDrop are":           "{memory: {pool: 1Gi}, update: {strategy: OnDelete, maxUnavailable: 2}}",
	"maxUnavailable must be a number from 1":                         "{memory: {pool: 1Gi}, update: {maxUnavailable: 0}}",
	"update.drainBudget must lie between":                            "{memory: {pool: 1Gi}, update: {drainBudget: -1Gi}}",
	"rdma.gid must be IPv4":                                          "{memory: {pool: 1Gi}, rdma: {gid: '3'}}",
	"a node pool's name may hold":                                    "{memory: {pool: 1Gi}, nodePools: [{name: GPU, selector: {a: b}}]}",
	"transport RDMA needs rails on every node pool":                  "{transport: RDMA, memory: {pool: 1Gi}, rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: x}}], nodePools: [{name: p, selector: {a: b}}]}",
	"nodePools[].rails names a rail that":                            "{memory: {pool: 1Gi}, nodePools: [{name: p, selector: {a: b}, rails: [z]}]}",
	"a rail's name may hold":                                         "{memory: {pool: 1Gi}, rails: [{name: Rail_0, attachment: HostNetwork, hostNetwork: {device: x}}]}",
	"a group's name may hold":                                        "{memory: {pool: 1Gi}, rails: [{name: a, group: NUMA0, attachment: HostNetwork, hostNetwork: {device: x}}]}",
	"resourceName must be an extended resource":                      "{memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: hca}}]}",
	"network.name must be the name of a NetworkAttachmentDefinition": "{memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: a/b/c}}]}",
	"interface must be the name of a network interface":              "{memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: net, interface: 'a b'}}]}",
	"device must be the name of an RDMA device":                      "{memory: {pool: 1Gi}, rails: [{name: a, attachment: HostNetwork, hostNetwork: {device: 'a,b'}}]}",
}

// withProvision is a spec with a shared and a virtual rail.
func withProvision(provision string) string {
	return "{memory: {pool: 1Gi}, rails: [{name: a, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: r/a}, network: {name: net}}, " +
		"{name: v, attachment: SRIOV, sriov: {resourceName: r/v}, network: {name: fast}}], provision: {" + provision + "}}"
}

const (
	ruleOfName = "metadata.name becomes part of Service and DaemonSet names"
	secretRule = "secretName must be the name of a Secret in this namespace: write for example "
)

func badSpecSpecs() {
	It("in a PeerCacheCluster: every rule refuses and says what to write", func(ctx context.Context) {
		for message, spec := range badSpecs {
			Expect(create(ctx, "bad", spec)).To(MatchError(ContainSubstring(message)), spec)
		}
		Expect(create(ctx, "1a", "{memory: {pool: 1Gi}}")).To(MatchError(ContainSubstring(ruleOfName)))
		Expect(create(ctx, "good", "{memory: {pool: 1Gi}}")).To(Succeed())
	}, SpecTimeout(longest))

	It("in a PeerCacheCluster: no rule is without its case", func() {
		covered := append(slices.Collect(maps.Keys(badSpecs)), ruleOfName)
		rules := ruleMessages()
		Expect(rules).To(HaveLen(len(covered)), "rules of the CRD and cases here")
		for _, message := range rules {
			Expect(slices.ContainsFunc(covered, func(begin string) bool { return strings.HasPrefix(message, begin) })).
				To(BeTrue(), "no case breaks the rule %q", message)
		}
	})

	It("in a podTemplate that sets options of peercached: the operator refuses, and names the field", func(ctx context.Context) {
		cluster := &v1alpha1.PeerCacheCluster{}
		cluster.Namespace, cluster.Name = namespace, "variables"
		cluster.Spec.Memory.Pool = resource.MustParse("1Gi")
		cluster.Spec.PodTemplate = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{
			Raw: []byte(`{"containers": [{"name": "peercached", "env": [{"name": "PEERCACHE_LOG_LEVEL", "value": "debug"}]}]}`)}}
		Expect(kube.Create(ctx, cluster)).To(Succeed())
		defer func() { deleteAndWait(context.WithoutCancel(ctx), cluster, hang) }()
		Eventually(func(g Gomega) {
			g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionConfigAccepted)).To(And(
				HavePrefix("False PodTemplateInvalid: "), ContainSubstring(`PEERCACHE_LOG_LEVEL`),
				ContainSubstring(`write spec.extraConfig: {log-level: "debug"} instead`)))
		}).WithContext(ctx).WithTimeout(hang).Should(Succeed())
	}, SpecTimeout(longest))

	DescribeTable("in a pod's labels and arguments: it runs without PeerCache and says why",
		func(ctx context.Context, reason string, change func(labels, annotations map[string]string, args *[]string)) {
			pod := enginePod("skipped", nodes.reader)
			pod.Annotations = map[string]string{}
			change(pod.Labels, pod.Annotations, &pod.Spec.Containers[0].Args)
			arguments := slices.Clone(pod.Spec.Containers[0].Args)
			Expect(kube.Create(ctx, pod, client.DryRunAll)).To(Succeed())
			Expect(pod.Annotations).To(HaveKeyWithValue("peercache.io/skip-reason", ContainSubstring(reason)))
			Expect(pod.Annotations).NotTo(HaveKey("peercache.io/injected"))
			Expect(pod.Spec.InitContainers).To(BeEmpty())
			Expect(pod.Spec.Containers[0].Args).To(Equal(arguments))
		},
		Entry("a cluster that does not exist", "PeerCacheCluster "+namespace+"/nobody does not exist",
			func(labels, _ map[string]string, _ *[]string) { labels[v1alpha1.LabelInject] = "nobody" }),
		Entry("a group that does not exist", `names "numa7", but the groups`,
			func(_, annotations map[string]string, _ *[]string) { annotations["peercache.io/group"] = "numa7" }),
		Entry("a container that does not exist", "not a container of this pod",
			func(_, annotations map[string]string, _ *[]string) { annotations["peercache.io/container"] = "nobody" }),
		Entry("a backend of the user's own", "--hicache-storage-backend mooncake, a backend of the user's own",
			func(_, _ map[string]string, args *[]string) {
				*args = append(*args, "--hicache-storage-backend", "mooncake")
			}),
	)

	It("in a pod that is not SGLang: it is left as it is", func(ctx context.Context) {
		pod := enginePod("other", nodes.reader)
		pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args = []string{"sleep"}, []string{"1"}
		Expect(kube.Create(ctx, pod, client.DryRunAll)).To(Succeed())
		Expect(pod.Annotations).To(HaveKeyWithValue("peercache.io/skip-reason", HavePrefix("no container starts SGLang")))
		Expect(pod.Spec.Containers[0].Env).To(BeEmpty())
	})
}

// create asks the API server, without creating anything, for a PeerCacheCluster as a user would write it.
func create(ctx context.Context, name, spec string) error {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	Expect(yaml.Unmarshal([]byte("spec: "+spec), &object.Object)).To(Succeed())
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PeerCacheCluster"))
	object.SetNamespace(namespace)
	object.SetName(name)
	return kube.Create(ctx, object, client.DryRunAll, client.FieldValidation("Strict"))
}

// ruleMessages are the messages of all CEL rules of the CRD, each once.
func ruleMessages() (messages []string) {
	content, err := os.ReadFile("../config/crd/peercache.io_peercacheclusters.yaml")
	Expect(err).NotTo(HaveOccurred())
	var crd any
	Expect(yaml.Unmarshal(content, &crd)).To(Succeed())
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, item := range value {
				walk(item)
			}
		case map[string]any:
			rules, _ := value["x-kubernetes-validations"].([]any)
			for _, rule := range rules {
				message := rule.(map[string]any)["message"].(string)
				messages = append(messages, strings.Join(strings.Fields(message), " "))
			}
			for _, item := range value {
				walk(item)
			}
		}
	}
	walk(crd)
	slices.Sort(messages)
	return slices.Compact(messages) // types that are used twice bring their rules twice
}
