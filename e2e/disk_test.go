// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// diskFolder is on the disk of each machine.
const diskFolder = "/var/lib/peercache-e2e"

// diskSpecs give the nodes drives, and take their memory away. Pages are written once.
func diskSpecs() {
	var body request
	var update v1alpha1.UpdateSpec // before
	var lines []string
	note := func(format string, values ...any) {
		lines = append(lines, time.Now().Format("15:04:05 ")+fmt.Sprintf(format, values...))
	}
	expectAll := func(ctx context.Context, after string) {
		begun := time.Now()
		expectAllPages(ctx, body, body.SHA256s, hang, "pages are lost %s", after)
		note("%s: all %d pages hit, %.1f s after the nodes were whole", after, body.Pages, time.Since(begun).Seconds())
	}

	BeforeAll(func(ctx context.Context) {
		for _, machine := range nodes.all() {
			_, err := below.exec(ctx, machine, "sh", "-c", "rm -rf "+diskFolder+" && mkdir "+diskFolder)
			Expect(err).NotTo(HaveOccurred())
		}
		update = clusterNamed(ctx, clusterName).Spec.Update
		changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) {
			spec.Update.DrainBudget = new(resource.MustParse("0")) // else a pod that ends last may give its pages to a new one
			spec.Disk = &v1alpha1.DiskSpec{
				HostPath: []v1alpha1.DiskFolder{diskFolder}, Size: resource.MustParse("1Gi"), WriteBudget: "unlimited",
			}
		})
		waitForDisks(ctx)
		body = request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		body.SHA256s = writeAll(ctx, body).SHA256s
		Eventually(onDisk).WithContext(ctx).WithArguments(nodes.writer).WithTimeout(hang).
			Should(BeNumerically(">=", body.Pages), "pages do not reach the drive")
	}, NodeTimeout(4*time.Minute))

	AfterAll(func(ctx context.Context) {
		AddReportEntry("pages", strings.Join(lines, "\n"))
		cluster := clusterNamed(ctx, clusterName)
		patch := client.MergeFrom(cluster.DeepCopy())
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, v1alpha1.AnnotationConfirmLoss, groupName+":"+diskFolder)
		cluster.Spec.Disk, cluster.Spec.Update = nil, update
		Expect(kube.Patch(ctx, cluster, patch)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(clusterNamed(ctx, clusterName).Status.Disk).To(BeNil())
		}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Succeed())
		waitForNodes(ctx)
		for _, machine := range nodes.all() {
			_, err := below.exec(ctx, machine, "rm", "-rf", diskFolder)
			Expect(err).NotTo(HaveOccurred())
		}
	}, NodeTimeout(4*time.Minute))

	// underLoad does something to nodes while an engine reads all pages again and again, and notes which share it found.
	underLoad := func(ctx context.Context, what string, do func()) {
		load := body
		load.Seconds = 60
		running := reader.start(ctx, "load", load, "")
		waitUntilReading(ctx, nodes.reader)
		do()
		answer := running.stop(ctx)
		note("%s: %s", what, hits(answer, body.Pages))
		expectHarmless(answer)
	}

	It("when the pods of all nodes are replaced at once under load", func(ctx context.Context) {
		before := nodePods(ctx)
		underLoad(ctx, "all pods replaced", func() {
			for _, pod := range before {
				Expect(kube.Delete(ctx, pod)).To(Succeed())
			}
			Eventually(func(g Gomega) {
				g.Expect(replaced(ctx, g, before)).To(Equal(len(before)))
			}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
			waitForDisks(ctx)
		})
		expectAll(ctx, "after new pods")
		Expect(nodeMetrics(ctx, nodes.writer)["peercache_disk_promoted_pages_total"]).To(BeNumerically(">", 0), "pages that came from the drive")
	}, SpecTimeout(4*time.Minute))

	It("when the node that holds them is killed under load", full, func(ctx context.Context) {
		before, err := nodePod(ctx, nodes.writer)
		Expect(err).NotTo(HaveOccurred())
		underLoad(ctx, "node killed", func() {
			killNode(ctx, nodes.writer)
			Eventually(func(g Gomega) {
				pod, err := nodePod(ctx, nodes.writer)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(pod.UID).To(Equal(before.UID))
				g.Expect(restarts(pod)).To(BeNumerically(">", restarts(before)))
			}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "its node has not restarted")
			waitForDisks(ctx)
		})
		expectAll(ctx, "after a kill")
	}, SpecTimeout(4*time.Minute))

	It("when the machine that holds them restarts under load", full, func(ctx context.Context) {
		load := body
		load.Seconds = 30
		running := reader.start(ctx, "load", load, "")
		waitUntilReading(ctx, nodes.reader)
		before, err := nodePod(ctx, nodes.writer)
		Expect(err).NotTo(HaveOccurred())
		Expect(below.restart(ctx, nodes.writer)).To(Succeed())
		answer := running.result(ctx, 2*time.Minute)
		note("machine restarted: %s", hits(answer, body.Pages))
		expectHarmless(answer)

		By("waiting for its node")
		deleteAndWait(ctx, &corev1.Pod{ObjectMeta: enginePod(writer.name, writer.node).ObjectMeta}, time.Minute)
		Eventually(func(g Gomega) {
			pod, err := nodePod(ctx, nodes.writer)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pod.UID != before.UID ||
				pod.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID).To(BeTrue())
		}).WithContext(ctx).WithTimeout(2*time.Minute).Should(Succeed(), "its node has not restarted")
		waitForDisks(ctx)
		Expect(onDisk(ctx, nodes.writer)).To(BeNumerically(">=", body.Pages))
		expectAll(ctx, "after a restart of the machine")

		By("waiting for a new engine")
		waitForAllWebhooks(ctx)
		writer = startEngine(ctx, writer.name, writer.node)
		writer.waitReady(ctx)
	}, SpecTimeout(5*time.Minute))
}

// onDisk is how many pages a node has on its drives, -1 while there are pages that wait for them.
func onDisk(ctx context.Context, machine string) int {
	status, err := nodeStatus(ctx, machine)
	if err != nil || status.Disk == nil || status.Disk.WaitingPages > 0 {
		return -1
	}
	return status.Disk.Pages
}

// waitForDisks waits until all nodes serve, each with its drive.
func waitForDisks(ctx context.Context) {
	Eventually(func(g Gomega) {
		cluster := clusterNamed(ctx, clusterName)
		g.Expect(conditionMessage(cluster, v1alpha1.ConditionProgressing)).To(HavePrefix("False"))
		// Of each node before the condition, which may be of the nodes before, and does not say why a drive is off.
		for _, machine := range nodes.all() {
			status, err := nodeStatus(ctx, machine)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.Disk).NotTo(BeNil(), "drives of %s", machine)
			for _, device := range status.Disk.Devices {
				g.Expect(device.On).To(BeTrue(), "the drive of %s: %s", machine, device.Why)
			}
		}
		g.Expect(conditionMessage(cluster, v1alpha1.ConditionDisksHealthy)).To(HavePrefix("True"))
	}).WithContext(ctx).WithTimeout(2*time.Minute).Should(Succeed(), "the nodes have no drives")
	waitForNodes(ctx)
}
