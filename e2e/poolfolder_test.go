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
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// poolFolder is in memory of each machine: its /run is a tmpfs of its own.
const poolFolder = "/run/peercache-e2e-pool"

// poolFolderSpecs keep the pools in memory of the machines. Pages are written once, and no node may give its pages to others.
func poolFolderSpecs() {
	var body request
	expectAll := func(ctx context.Context, after string) {
		expectAllPages(ctx, body, body.SHA256s, hang, "pages are lost %s", after)
	}
	expectNewPods := func(ctx context.Context, before map[string]*corev1.Pod) {
		Eventually(func(g Gomega) {
			g.Expect(replaced(ctx, g, before)).To(Equal(len(before)))
			g.Expect(conditionMessage(clusterNamed(ctx, clusterName), v1alpha1.ConditionProgressing)).To(HavePrefix("False"))
		}).WithContext(ctx).WithTimeout(3*time.Minute).Should(Succeed(), "pods are not replaced")
		waitForNodes(ctx)
	}
	expectNoFiles := func(ctx context.Context, of string) {
		Eventually(func(g Gomega) {
			for _, machine := range nodes.all() {
				g.Expect(poolFiles(ctx, machine, of)).To(BeEmpty(), "files on %s", machine)
			}
		}).WithContext(ctx).WithTimeout(2*time.Minute).Should(Succeed(), "memory of the machines stays taken")
	}

	BeforeAll(func(ctx context.Context) {
		for _, machine := range nodes.all() {
			_, err := below.exec(ctx, machine, "sh", "-c", "rm -rf "+poolFolder+" && mkdir "+poolFolder)
			Expect(err).NotTo(HaveOccurred())
		}
		before := nodePods(ctx)
		changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) {
			spec.Memory.HostPath = poolFolder
			spec.Update = v1alpha1.UpdateSpec{MaxUnavailable: new(intstr.FromString("100%")), DrainBudget: new(resource.MustParse("0"))}
		})
		expectNewPods(ctx, before)
		body = request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		body.SHA256s = writeAll(ctx, body).SHA256s
	}, NodeTimeout(6*time.Minute))

	It("when the pods of all nodes are replaced at once", func(ctx context.Context) {
		before := nodePods(ctx)
		for _, pod := range before {
			Expect(kube.Delete(ctx, pod)).To(Succeed())
		}
		expectNewPods(ctx, before)
		expectAll(ctx, "with new pods")
		status, err := nodeStatus(ctx, nodes.writer)
		Expect(err).NotTo(HaveOccurred())
		Expect(status.Pool.Pages).To(BeNumerically(">=", body.Pages), "pages of the node that they were written to")
	}, SpecTimeout(5*time.Minute))

	It("when other resources need new pods", func(ctx context.Context) {
		before := nodePods(ctx)
		changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Resources.MemoryOverhead = resource.MustParse("550Mi") })
		expectNewPods(ctx, before)
		expectAll(ctx, "with other resources")
	}, SpecTimeout(6*time.Minute))

	It("until they are asked to be kept no more: then the machines have their memory again", func(ctx context.Context) {
		for _, machine := range nodes.all() {
			Expect(poolFiles(ctx, machine, clusterName)).To(HaveLen(1), "files on %s", machine)
		}
		before := nodePods(ctx)
		changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) {
			spec.Memory.HostPath, spec.Update, spec.Resources.MemoryOverhead = "", v1alpha1.UpdateSpec{}, resource.MustParse("512Mi")
		})
		expectNewPods(ctx, before)
		expectNoFiles(ctx, clusterName)
	}, SpecTimeout(7*time.Minute))

	It("until their cluster is deleted", full, func(ctx context.Context) {
		cluster := &v1alpha1.PeerCacheCluster{}
		cluster.Namespace, cluster.Name = namespace, "kept"
		cluster.Spec.Memory = v1alpha1.MemorySpec{Pool: resource.MustParse("64Mi"), HostPath: poolFolder}
		cluster.Spec.PodTemplate = smallMembers()
		Expect(kube.Create(ctx, cluster)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
			g.Expect(cluster.Status.Members).To(Equal(fmt.Sprintf("%[1]d/%[1]d", len(nodes.all()))))
			for _, machine := range nodes.all() {
				g.Expect(poolFiles(ctx, machine, cluster.Name)).To(HaveLen(1), "files on %s", machine)
			}
			var removals corev1.PodList // where none runs, nothing removes the file
			g.Expect(kube.List(ctx, &removals, client.InNamespace(namespace), client.MatchingLabels{
				v1alpha1.LabelCluster: cluster.Name, plan.LabelComponent: plan.ComponentPoolFile})).To(Succeed())
			g.Expect(removals.Items).To(HaveLen(len(nodes.all())))
			for _, pod := range removals.Items {
				g.Expect(ready(&pod)).To(BeTrue(), "%s is %s", pod.Name, pod.Status.Phase)
			}
		}).WithContext(ctx).WithTimeout(3 * time.Minute).Should(Succeed())
		deleteAndWait(ctx, cluster, hang)
		expectNoFiles(ctx, cluster.Name)
		Eventually(func() map[string]string { return ownedBy(ctx, cluster.Name) }).WithContext(ctx).WithTimeout(90*time.Second).
			Should(BeEmpty(), "objects of the deleted cluster")
	}, SpecTimeout(6*time.Minute))
}

// poolFiles are the files of a cluster's pools in the folder of a machine.
func poolFiles(ctx context.Context, machine, cluster string) []string {
	files, err := below.exec(ctx, machine, "find", poolFolder, "-path", poolFolder+"/"+namespace+"."+cluster+".*.pool")
	Expect(err).NotTo(HaveOccurred())
	return strings.Fields(files)
}
