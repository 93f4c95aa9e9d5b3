// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strconv"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Some specs bring up a cluster of their own, beside the one of the suite and in the same namespace.

func clusterNamed(ctx context.Context, name string) *v1alpha1.PeerCacheCluster {
	cluster := &v1alpha1.PeerCacheCluster{}
	Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cluster)).To(Succeed())
	return cluster
}

func changeSpecOf(ctx context.Context, name string, change func(*v1alpha1.PeerCacheClusterSpec)) {
	cluster := clusterNamed(ctx, name)
	patch := client.MergeFrom(cluster.DeepCopy())
	change(&cluster.Spec)
	Expect(kube.Patch(ctx, cluster, patch)).To(Succeed())
}

// expectPlanned waits for a condition of a cluster in mode Plan, of which nothing else exists.
func expectPlanned(ctx context.Context, name, kind, begin string) {
	Eventually(func(g Gomega) {
		cluster := clusterNamed(ctx, name)
		g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation))
		g.Expect(conditionMessage(cluster, kind)).To(HavePrefix(begin))
	}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
	var daemonSets appsv1.DaemonSetList
	Expect(kube.List(ctx, &daemonSets, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelCluster: name})).To(Succeed())
	Expect(daemonSets.Items).To(BeEmpty())
	Expect(podsFor(ctx, name)).To(BeEmpty())
}

// podsFor names a cluster's nodes, and the engines that are connected to it.
func podsFor(ctx context.Context, cluster string) (names []string) {
	var list corev1.PodList
	Expect(kube.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	for _, pod := range list.Items {
		if pod.Labels[v1alpha1.LabelCluster] == cluster || pod.Labels[v1alpha1.LabelInject] == cluster {
			names = append(names, pod.Name)
		}
	}
	return names
}

func labelMachine(ctx context.Context, name, label string, value any) {
	quoted := "null"
	if text, ok := value.(string); ok {
		quoted = strconv.Quote(text)
	}
	patch := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata": {"labels": {"`+label+`": `+quoted+`}}}`))
	Expect(kube.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch)).To(Succeed())
}

// startEngineOf waits until the webhook has heard of the cluster.
func startEngineOf(ctx context.Context, cluster, name, node string) engine {
	Eventually(func(g Gomega) {
		g.Expect(probe(ctx, g, cluster).Annotations).To(HaveKeyWithValue("peercache.io/injected", cluster))
	}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "the webhook does not connect pods to %s", cluster)
	pod := enginePod(name, node)
	pod.Labels[v1alpha1.LabelInject] = cluster
	Expect(kube.Create(ctx, pod)).To(Succeed())
	return engine{name: name, node: node}
}

// expectRead has an engine read what another wrote; one that has just started takes a moment to be attached.
func expectRead(ctx context.Context, e engine, body request, wrote result) {
	Eventually(func(g Gomega) {
		got, err := e.do(ctx, "read", body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(rightPages(e, got, wrote.SHA256s)).To(Equal(body.Pages), "pages that %s got", e.name)
		g.Expect(got.Prefetched).To(Equal(body.Pages*pageTokens), "tokens that %s got", e.name)
	}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
}
