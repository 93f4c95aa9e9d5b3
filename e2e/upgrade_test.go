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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/hitshare"
)

const (
	// hitsBack is how long after the last node is back hits may take to return.
	hitsBack = time.Minute
	// keptShare is how much of the hits stay while all nodes get another image, in each minute, which is the time over which
	// `kubectl peercache status` shows them. In a shorter time one engine, as here, may get nothing: its own node restarts. So in
	// each minute 3 s may be lost, with the restarts of nodes whose pages no other node has.
	keptShare     = 0.95
	keptInSeconds = 60.0
)

// upgradeSpecs bring the suite's cluster to what `make push` has put into a registry, by the command of
// docs/quickstart.md, while one load reads the same pages over and over. The images are the same under other names:
// to Helm, to the operator and to Kubernetes that is an upgrade; that two versions understand each other is not shown by it.
// Nothing is written anew: the nodes have their pages still.
func upgradeSpecs() {
	var body request
	var lines []string
	note := func(format string, values ...any) {
		lines = append(lines, time.Now().Format("15:04:05 ")+fmt.Sprintf(format, values...))
	}
	upgrade := func(ctx context.Context, values ...string) {
		note("helm upgrade %s", strings.Join(values, " "))
		installOperator(ctx, values...)
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
		published = publish(ctx)
	}, NodeTimeout(longest))

	It("the operator alone: no node is restarted, and no hit is lost", func(ctx context.Context) {
		before, leader := uids(ctx), operatorLeader(ctx)
		running, _ := startLoad(ctx, 200)
		// As docs/upgrade.md has it: nodes stay with the image that they have.
		upgrade(ctx, "--set", "dataplane.image.repository=ghcr.io/peercache/peercache/dataplane", "--set", "dataplane.image.tag="+version())
		// The last of the old ones, which may have taken over from the first, goes when all new ones are ready.
		Eventually(operatorImages).WithContext(ctx).WithTimeout(time.Minute).Should(HaveEach(published.images["operator"]))
		Eventually(operatorLeader).WithContext(ctx).WithTimeout(time.Minute).ShouldNot(Or(BeEmpty(), Equal(leader)))
		note("the new operator works")
		Consistently(uids).WithContext(ctx).WithTimeout(10*time.Second).WithPolling(time.Second).
			Should(ConsistOf(before), "UIDs of the nodes' pods")
		answer := running.stop(ctx)
		note("%s", hits(answer, body.Pages))
		expectHarmless(answer)
		Expect(answer.FullRounds).To(Equal(answer.Rounds), "hits were lost: %s", timeline(answer))
	}, SpecTimeout(4*time.Minute))

	It("then the nodes, in their pods: at least 0.95 of the pages are found in each minute, and all of them within a minute of the last", func(ctx context.Context) {
		before, image := nodePods(ctx), published.images["dataplane"]
		running, begun := startLoad(ctx, 85)
		upgrade(ctx)
		var last time.Time // when the last node became ready
		ratio := ""
		Eventually(func(g Gomega) {
			cluster := clusterNamed(ctx, clusterName)
			if now := hitRatio(ctx); now != ratio {
				ratio = now
				note("%s, %d of %d members are updated", ratio, cluster.Status.UpdatedMembers, cluster.Status.DesiredMembers)
			}
			g.Expect(cluster.Status.Image).To(Equal(image))
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionReady)).To(HavePrefix("True"))
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionProgressing)).To(HavePrefix("False"))
			for node, old := range before {
				pod, err := nodePod(ctx, node)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(pod.UID).To(Equal(old.UID), "the pod on %s was replaced", node)
				g.Expect(pod.Spec.Containers[0].Image).To(Equal(image))
				g.Expect(restarts(pod)).To(BeNumerically(">", restarts(old)), "the node on %s was not restarted", node)
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
		Expect(answer.Timeline[0].Pages).To(Equal(body.Pages), "pages that hit before")
		lowest := hitshare.Lowest(shares(answer, body.Pages), keptInSeconds)
		note("at least %.1f%% of the pages in each %.0f s", 100*lowest, keptInSeconds)
		Expect(lowest).To(BeNumerically(">=", keptShare), timeline(answer))
		back := fullSince(answer, body.Pages, begun)
		if answer.Last.Pages != body.Pages { // the load ended before the nodes were back
			expectAllPages(ctx, body, body.SHA256s, hitsBack, "hits do not return")
			back = time.Now()
		}
		note("all %d pages hit since %s, and none was written anew", body.Pages, back.Format("15:04:05"))
		Expect(back).To(BeTemporally("<=", last.Add(hitsBack)))
	}, SpecTimeout(6*time.Minute))

	It("then SGLang's pods: the next one gets the client of the registry", func(ctx context.Context) {
		Eventually(func(g Gomega) {
			g.Expect(podImages(probe(ctx, g, clusterName))).To(ContainElement(published.images["client"]))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
	}, SpecTimeout(longest))

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

// hitRatio is the line of kubectl peercache status about engines and their hits.
func hitRatio(ctx context.Context) string {
	text, _, _ := peercache(ctx, "status", clusterName)
	_, line, _ := strings.Cut(text, "\n")
	line, _, _ = strings.Cut(line, "\n")
	return line
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

func restarts(pod *corev1.Pod) int32 { return pod.Status.ContainerStatuses[0].RestartCount }

func readySince(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// shares are the rounds of a load with the part of the pages that each found.
func shares(r result, pages int) (rounds []hitshare.Round) {
	for _, round := range r.Timeline {
		rounds = append(rounds, hitshare.Round{At: round.At, Share: float64(round.Pages) / float64(pages)})
	}
	return rounds
}
