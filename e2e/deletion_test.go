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
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

func deletionSpecs() {
	It("when the PeerCacheCluster is deleted: nothing of it stays, and engines go on without it", func(ctx context.Context) {
		byPolicy := kube.minor >= policiesSince
		if byPolicy {
			changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Injection.By = v1alpha1.InjectionByPolicy })
			waitForInjection(ctx, "True PolicyReady")
		}
		body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: 50, Seed: freshSeed()}
		body.SHA256s, body.Seconds = writeAll(ctx, body).SHA256s, 240
		load := reader.start(ctx, "load", body, "")
		waitUntilReading(ctx, nodes.reader)
		Expect(owned(ctx)).NotTo(BeEmpty(), "objects of the cluster while it is there")
		if byPolicy {
			Expect(policyVersions(ctx, Default)).NotTo(BeEmpty(), "its policy, which has no namespace and no owner")
		}

		cluster := &v1alpha1.PeerCacheCluster{}
		Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster)).To(Succeed())
		deleteAndWait(ctx, cluster, hang)
		Eventually(func() map[string]string { return owned(ctx) }).WithContext(ctx).WithTimeout(90*time.Second).
			Should(BeEmpty(), "objects of the deleted cluster")
		if byPolicy {
			Eventually(func(g Gomega) { g.Expect(policyVersions(ctx, g)).To(BeEmpty()) }).
				WithContext(ctx).WithTimeout(hang).Should(Succeed(), "the policy of the deleted cluster stays")
		}

		during := load.stop(ctx)
		AddReportEntry("reader", timeline(during))
		expectHarmless(during)
		Expect(during.FullRounds).To(BeNumerically(">", 0))
		Expect(during.Last.Pages).To(BeZero(), "pages of a cluster that is gone")
		for _, e := range []engine{writer, reader} {
			pod, err := kube.pod(ctx, namespace, e.name)
			Expect(err).NotTo(HaveOccurred())
			Expect(ready(pod)).To(BeTrue(), "engine %s", e.name)
		}
	}, SpecTimeout(longest))
}

// owned lists what belongs to the cluster of the engines.
func owned(ctx context.Context) map[string]string { return ownedBy(ctx, clusterName) }

// ownedBy lists what belongs to a cluster, by the label that everything of it carries: "DaemonSet e2e-default"
// with its resource version.
func ownedBy(ctx context.Context, cluster string) map[string]string {
	versions := map[string]string{}
	lists := []client.ObjectList{&appsv1.DaemonSetList{}, &appsv1.ControllerRevisionList{}, &corev1.PodList{},
		&corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &corev1.SecretList{},
		&networkingv1.NetworkPolicyList{}}
	for _, list := range lists {
		Expect(kube.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelCluster: cluster})).To(Succeed())
		items, err := meta.ExtractList(list)
		Expect(err).NotTo(HaveOccurred())
		for _, item := range items {
			object, err := meta.Accessor(item)
			Expect(err).NotTo(HaveOccurred())
			kind := strings.TrimPrefix(fmt.Sprintf("%T", item), "*v1.")
			versions[kind+" "+object.GetName()] = object.GetResourceVersion()
		}
	}
	return versions
}
