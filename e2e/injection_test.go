// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/peercache/peercache/api/v1alpha1"
)

func injectionSpecs() {
	It("through the socket, without any device or privilege", func(ctx context.Context) {
		for _, e := range []engine{writer, reader} {
			pod, err := kube.pod(ctx, namespace, e.name)
			Expect(err).NotTo(HaveOccurred())
			Expect(pod.Spec.NodeName).To(Equal(e.node))
			Expect(pod.Annotations).To(HaveKeyWithValue("peercache.io/injected", clusterName))
			Expect(pod.Annotations).NotTo(HaveKey("peercache.io/skip-reason"))
			Expect(pod.Spec.HostNetwork || pod.Spec.HostPID || pod.Spec.HostIPC).To(BeFalse(), "namespaces of the machine")
			for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
				if s := c.SecurityContext; s != nil {
					Expect(s.Privileged).To(Or(BeNil(), HaveValue(BeFalse())), "privilege of %s", c.Name)
					if s.Capabilities != nil {
						Expect(s.Capabilities.Add).To(BeEmpty(), "capabilities added to %s", c.Name)
					}
				}
				for name := range c.Resources.Limits {
					Expect(string(name)).NotTo(ContainSubstring("/"), "devices of %s", c.Name)
				}
			}
			for _, m := range pod.Spec.Containers[0].VolumeMounts {
				if m.Name == "peercache-socket" {
					Expect(m.SubPath).To(Equal(namespace), "folder of sockets")
				}
			}
			var paths []string
			for _, v := range pod.Spec.Volumes {
				if v.HostPath != nil {
					paths = append(paths, v.HostPath.Path)
				}
			}
			Expect(paths).To(Equal([]string{"/run/peercache/" + namespace + "/" + clusterName + ".tenants"}), "directories of the machine")
			Expect(strings.Join(pod.Spec.Containers[0].Args, " ")).To(ContainSubstring("--hicache-storage-backend dynamic"))
		}
	}, SpecTimeout(longest))

	It("so that the engine's process holds no device of RDMA and no right", func(ctx context.Context) {
		devices, err := kube.exec(ctx, namespace, writer.name, "", "sh", "-c",
			"ls -d /dev/infiniband 2>/dev/null; grep -E '^Cap(Prm|Eff)' /proc/1/status; ls -l /proc/1/fd")
		Expect(err).NotTo(HaveOccurred())
		Expect(devices).NotTo(ContainSubstring("infiniband"))
		Expect(devices).To(MatchRegexp(`CapEff:\s+0+\n`))
		Expect(devices).To(ContainSubstring("memfd:"), "the host pool lies in memory that the node can map")
	}, SpecTimeout(longest))

	It("by a node that is not root and has no right either", func(ctx context.Context) {
		pod, err := nodePod(ctx, writer.node)
		Expect(err).NotTo(HaveOccurred())
		who, err := kube.exec(ctx, namespace, pod.Name, "", "grep", "-E", "^(Uid|CapEff)", "/proc/1/status")
		Expect(err).NotTo(HaveOccurred())
		Expect(who).To(MatchRegexp(`Uid:\s+31998\s`))
		Expect(who).To(MatchRegexp(`CapEff:\s+0+\n`))
	}, SpecTimeout(longest))

	It("but not an engine that is held out, which runs without cache", func(ctx context.Context) {
		heldOut := engine{name: "held-out", node: nodes.third}
		pod := enginePod(heldOut.name, heldOut.node)
		pod.Annotations = map[string]string{"peercache.io/holdout": "true"}
		DeferCleanup(func(ctx context.Context) { removeEngine(ctx, heldOut) })
		Expect(kube.Create(ctx, pod)).To(Succeed())
		Expect(pod.Annotations).To(HaveKeyWithValue("peercache.io/injected", clusterName))
		heldOut.waitReady(ctx)
		expectMisses(ctx, heldOut, "it is held out")
	}, SpecTimeout(longest))

	It("and the discovery hosts hear of it", func(ctx context.Context) {
		Eventually(func() string { return peercacheOK(ctx, "status", clusterName) }).
			WithContext(ctx).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(MatchRegexp(`(?m)^[2-9] engines attached, `))
		cluster := clusterNamed(ctx, clusterName)
		for _, kind := range []string{v1alpha1.ConditionRailsHealthy, v1alpha1.ConditionNUMAAligned} {
			Expect(meta.FindStatusCondition(cluster.Status.Conditions, kind)).To(HaveField("Reason", "NotApplicable"), "%s over TCP", kind)
		}
	}, SpecTimeout(longest))
}
