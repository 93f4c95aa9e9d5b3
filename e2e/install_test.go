// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	systemNamespace = "peercache-system"
	// As in the README's quick start.
	namespace      = "inference"
	clusterName    = "kv"
	groupName      = "default"
	monitoringPort = 31997
	peerPort       = 31998

	// labelThrowaway marks namespaces that a test or the demo made and that may be removed by the next.
	labelThrowaway = "peercache.io/throwaway"
)

func version() string {
	text, err := os.ReadFile("../VERSION")
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(text))
}

// removeLeftovers removes what a run that was cut short, or the demo, left behind.
func removeLeftovers(ctx context.Context) {
	var old corev1.NamespaceList
	Expect(kube.List(ctx, &old, client.HasLabels{labelThrowaway})).To(Succeed())
	for i := range old.Items {
		By("removing namespace " + old.Items[i].Name + " of an earlier run")
		Expect(client.IgnoreNotFound(kube.Delete(ctx, &old.Items[i]))).To(Succeed())
	}
	Eventually(func(g Gomega) {
		g.Expect(kube.List(ctx, &old, client.HasLabels{labelThrowaway})).To(Succeed())
		g.Expect(old.Items).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(2*time.Minute).Should(Succeed(), "namespaces of an earlier run do not go away")
}

func createNamespace(ctx context.Context, name string, more ...string) {
	labels := map[string]string{labelThrowaway: "true"}
	for _, label := range more {
		key, value, _ := strings.Cut(label, "=")
		labels[key] = value
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	Expect(kube.Create(ctx, object)).To(Succeed())
	// Pods are refused until the namespace's service account exists.
	Eventually(func() error {
		return kube.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	}).WithContext(ctx).WithTimeout(hang).Should(Succeed(), "namespace %s has no service account", name)
}

// smallMembers asks for so little of a machine's processors that a second cluster has room beside the first.
func smallMembers() *v1alpha1.PodTemplate {
	return &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{
		Raw: []byte(`{"containers": [{"name": "peercached", "resources": {"requests": {"cpu": "100m"}}}]}`)}}
}

func changeSpec(ctx context.Context, change func(*v1alpha1.PeerCacheClusterSpec)) {
	changeSpecOf(ctx, clusterName, change)
}

// waitForNodes waits until every machine has a Ready pod, all of them know each other, and the status says so.
func waitForNodes(ctx context.Context) {
	Eventually(func(g Gomega) {
		cluster := &v1alpha1.PeerCacheCluster{}
		g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster)).To(Succeed())
		g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation))
		g.Expect(conditionMessage(cluster, v1alpha1.ConditionReady)).To(HavePrefix("True"))
		g.Expect(conditionMessage(cluster, v1alpha1.ConditionAvailable)).To(HavePrefix("True"))
		g.Expect(cluster.Status.ReadyMembers).To(BeEquivalentTo(len(nodes.all())))
		for _, node := range nodes.all() {
			status, err := nodeStatus(ctx, node)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.Node.Ready).To(BeTrue(), "%s: %s", node, status.Node.Reason)
			g.Expect(status.healthyMembers()).To(Equal(len(nodes.all())), "members that %s sees: %v", node, status.Members)
		}
	}).WithContext(ctx).WithTimeout(2*time.Minute).Should(Succeed(), "the nodes are not whole")
}

func conditionMessage(cluster *v1alpha1.PeerCacheCluster, kind string) string {
	for _, c := range cluster.Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return "no condition " + kind
}

// waitForWebhook asks the API server, without creating anything, what becomes of an SGLang pod. The webhook's
// failure policy is Ignore, so a pod that is created too early would silently run without PeerCache.
func waitForWebhook(ctx context.Context) {
	Eventually(func(g Gomega) {
		g.Expect(probe(ctx, g, clusterName).Annotations).To(HaveKeyWithValue("peercache.io/injected", clusterName))
	}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "the webhook does not connect SGLang pods")
}

// waitForAllWebhooks waits until every pod of the operator serves: for a while the API server still asks one whose
// machine went down, and lets the pod pass when there is no answer.
func waitForAllWebhooks(ctx context.Context) {
	scaleOperator(ctx, operators(ctx))
	waitForWebhook(ctx)
}

func deleteAndWait(ctx context.Context, object client.Object, within time.Duration) {
	Expect(client.IgnoreNotFound(kube.Delete(ctx, object))).To(Succeed())
	Eventually(func() bool {
		return apierrors.IsNotFound(kube.Get(ctx, client.ObjectKeyFromObject(object), object))
	}).WithContext(ctx).WithTimeout(within).Should(BeTrue(), "%T %s does not go away", object, object.GetName())
}
