// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Images of the suite under another name, which machines resolve to the same image. To Helm, to the operator and to Kubernetes
// that is an upgrade; that two versions understand each other is not shown by it.
const (
	otherOperator  = "peercache/operator"
	otherDataplane = "peercache/dataplane"
	// hitsBack is how long after the last node is back hits may take to return.
	hitsBack = time.Minute
)

// upgradeSpecs run `helm upgrade` as docs/upgrade.md has it, while one load reads the same pages over and over. Nothing is written
// anew: what the nodes hand over when they leave has to be enough.
func upgradeSpecs() {
	var body request
	var lines []string
	note := func(format string, values ...any) {
		lines = append(lines, time.Now().Format("15:04:05 ")+fmt.Sprintf(format, values...))
	}
	upgrade := func(ctx context.Context, value string) {
		upgraded = append(upgraded, "--set", value)
		note("helm upgrade --set %s", value)
		installOperator(ctx)
		note("helm has ended")
	}
	startLoad := func(ctx context.Context, seconds float64) (background, time.Time) {
		load := body
		load.Seconds = seconds
		running := reader.start(ctx, "load", load, "")
		begun := time.Now()
		note("the load begins")
		waitUntilReading(ctx, nodes.reader)
		return running, begun
	}
	uids := func(ctx context.Context) (list []types.UID) {
		for _, pod := range nodePods(ctx) {
			list = append(list, pod.UID)
		}
		return list
	}

	BeforeAll(func(ctx context.Context) {
		body = request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()}
		body.SHA256s = writeAll(ctx, body).SHA256s
	}, NodeTimeout(time.Minute))

	It("the operator alone: no node is restarted, and no hit is lost", func(ctx context.Context) {
		before, leader := uids(ctx), operatorLeader(ctx)
		running, _ := startLoad(ctx, 30)
		upgrade(ctx, "image.repository="+otherOperator)
		// The last of the old ones, which may have taken over from the first, goes when all new ones are ready.
		Eventually(operatorImages).WithContext(ctx).WithTimeout(time.Minute).Should(HaveEach(HavePrefix(otherOperator + ":")))
		Eventually(operatorLeader).WithContext(ctx).WithTimeout(time.Minute).ShouldNot(Or(BeEmpty(), Equal(leader)))
		note("the new operator works")
		Consistently(uids).WithContext(ctx).WithTimeout(10*time.Second).WithPolling(time.Second).
			Should(ConsistOf(before), "UIDs of the nodes' pods")
		answer := running.result(ctx, time.Minute)
		note("%s", hits(answer, body.Pages))
		expectHarmless(answer)
		Expect(answer.FullRounds).To(Equal(answer.Rounds), "hits were lost: %s", timeline(answer))
	}, SpecTimeout(4*time.Minute))

	It("then the nodes: every call is answered in time, and hits are back within a minute of the last", func(ctx context.Context) {
		before, image := nodePods(ctx), otherDataplane+":"+version()
		running, begun := startLoad(ctx, 75)
		upgrade(ctx, "dataplane.image.repository="+otherDataplane)
		var last time.Time // when the last node became ready
		ratio := ""
		Eventually(func(g Gomega) {
			cluster := clusterNamed(ctx, clusterName)
			if now := hitRatio(cluster); now != ratio {
				ratio = now
				note("status.hitRatioPercent is %s, %d of %d nodes are updated", ratio, cluster.Status.UpdatedNodes, cluster.Status.DesiredNodes)
			}
			g.Expect(cluster.Status.Image).To(Equal(image))
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionReady)).To(HavePrefix("True"))
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionProgressing)).To(HavePrefix("False"))
			for node, old := range before {
				pod, err := nodePod(ctx, node)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(pod.UID).NotTo(Equal(old.UID), "the pod on %s was not replaced", node)
				g.Expect(pod.Spec.Containers[0].Image).To(Equal(image))
				g.Expect(ready(pod)).To(BeTrue(), "the pod on %s is not ready", node)
				if since := readySince(pod); since.After(last) {
					last = since
				}
			}
		}).WithContext(ctx).WithTimeout(3 * time.Minute).WithPolling(time.Second).Should(Succeed())
		note("all nodes are new; the last was ready at %s", last.Format("15:04:05"))

		answer := running.result(ctx, 2*time.Minute)
		note("%s", hits(answer, body.Pages))
		expectHarmless(answer)
		Expect(answer.FullRounds).To(BeNumerically(">", 0))
		back := fullSince(answer, body.Pages, begun)
		if answer.Last.Pages != body.Pages { // the load ended before the nodes were back
			Eventually(func(g Gomega) {
				got, err := reader.do(ctx, "read", body)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(rightPages(reader, got, body.SHA256s)).To(Equal(body.Pages), "pages that hit")
			}).WithContext(ctx).WithTimeout(hitsBack).Should(Succeed(), "hits do not return")
			back = time.Now()
		}
		note("all %d pages hit since %s, and none was written anew", body.Pages, back.Format("15:04:05"))
		Expect(back).To(BeTemporally("<=", last.Add(hitsBack)))
	}, SpecTimeout(6*time.Minute))

	AfterAll(func() { AddReportEntry("traffic", strings.Join(lines, "\n")) })
}

// hits is a load in one line, with the part of the pages that it found.
func hits(r result, pages int) string {
	return fmt.Sprintf("%.1f%% hits in %s", 100*float64(r.Pages)/float64(max(1, r.Rounds*pages)), timeline(r))
}

// fullSince is when the load found all pages for the first time after which it did not miss any.
func fullSince(r result, pages int, begun time.Time) time.Time {
	at := 0.0
	for i, round := range r.Timeline {
		if round.Pages != pages && i+1 < len(r.Timeline) {
			at = r.Timeline[i+1].At
		}
	}
	return begun.Add(time.Duration(at * float64(time.Second)))
}

func hitRatio(cluster *v1alpha1.PeerCacheCluster) string {
	if cluster.Status.HitRatioPercent == nil {
		return "unknown"
	}
	return strconv.Itoa(int(*cluster.Status.HitRatioPercent))
}

// operatorLeader is the operator's replica that works, "" while none does.
func operatorLeader(ctx context.Context) string {
	lease := &coordinationv1.Lease{}
	Expect(kube.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "peercache-operator"}, lease)).To(Succeed())
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// operatorImages are those of the operator's pods that are not on their way out.
func operatorImages(ctx context.Context) (images []string) {
	var pods corev1.PodList
	Expect(kube.List(ctx, &pods, client.InNamespace(systemNamespace),
		client.MatchingLabels{"app.kubernetes.io/component": "operator"})).To(Succeed())
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			images = append(images, pod.Spec.Containers[0].Image)
		}
	}
	Expect(images).NotTo(BeEmpty(), "pods of the operator")
	return images
}

func readySince(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
