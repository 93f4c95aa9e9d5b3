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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// firstTokens are those before the rotation, which goes on for ten minutes while other specs run.
var firstTokens []string

func tokenSpecs() {
	It("with a token of the cluster's own, without which a node is refused", func(ctx context.Context) {
		Expect(conditionMessage(clusterNamed(ctx, clusterName), v1alpha1.ConditionPeersAuthenticated)).To(HavePrefix("True Token"))
		Expect(tokens(ctx)).To(HaveExactElements(HaveLen(64)))
		pod, err := nodePod(ctx, nodes.third)
		Expect(err).NotTo(HaveOccurred())
		address := fmt.Sprintf("%s-discovery.%s.svc:%d", clusterName, namespace, peerPort)
		stranger := fmt.Sprintf("env -u PEERCACHE_POOL_FILE -u PEERCACHE_POOL_FILE_VIEW timeout 6 peercached --cluster=%s/%s --discovery-addr=%s --node-id=stranger --insecure-peers=on "+
			"--peer-port=0 --http=off --pool-size=16Mi --socket=/run/peercache/stranger.sock 2>&1; true", namespace, clusterName, address)
		said, err := kube.exec(ctx, namespace, pod.Name, "", "sh", "-c", stranger)
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(ContainSubstring("the caller names no secret"))
		status, err := nodeStatus(ctx, nodes.writer)
		Expect(err).NotTo(HaveOccurred())
		Expect(status.healthyMembers()).To(Equal(len(nodes.all())), "members: %v", status.Members)
	}, SpecTimeout(longest))

	It("and begins to take another one, when asked to", func(ctx context.Context) {
		firstTokens = tokens(ctx)
		Expect(peercacheOK(ctx, "rotate", clusterName)).To(ContainSubstring("next: kubectl wait"))
		Eventually(func(g Gomega) {
			g.Expect(conditionMessage(clusterNamed(ctx, clusterName), v1alpha1.ConditionPeersAuthenticated)).To(HavePrefix("True Rotating"))
		}).WithContext(ctx).WithTimeout(hang).Should(Succeed())
		now := tokens(ctx)
		Expect(now).To(HaveLen(2))
		Expect(now[0]).To(Equal(firstTokens[0]))
	}, SpecTimeout(longest))
}

// rotationSpecs come ten minutes later or more: nodes were killed, replaced and upgraded meanwhile.
func rotationSpecs() {
	It("of a token that was replaced while nodes came and went", func(ctx context.Context) {
		asked := clusterNamed(ctx, clusterName).Annotations[v1alpha1.AnnotationRotateToken]
		if asked == "" {
			Skip("no rotation was asked for: run the spec before, too")
		}
		Eventually(func(g Gomega) {
			cluster := clusterNamed(ctx, clusterName)
			g.Expect(cluster.Status.RotatedToken).To(Equal(asked))
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionPeersAuthenticated)).To(HavePrefix("True Token"))
		}).WithContext(ctx).WithTimeout(11 * time.Minute).WithPolling(5 * time.Second).Should(Succeed())
		Expect(tokens(ctx)).To(HaveExactElements(Not(BeElementOf(firstTokens))))
		exchange(ctx, writer, reader, 31)
	}, SpecTimeout(13*time.Minute))
}

// tokens are those of the Secret that the operator keeps.
func tokens(ctx context.Context) []string {
	secret := &corev1.Secret{}
	Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName + "-token"}, secret)).To(Succeed())
	return strings.Fields(string(secret.Data[plan.TokenKey]))
}
