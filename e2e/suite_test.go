// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// One cluster serves all specs; each begins by waiting until it is whole again.
var (
	kube  *apiClient
	below hooks
	nodes places
	// writer and reader are the engine pods, on different machines. The third machine has none.
	writer, reader engine
)

// Specs of variants, and long ones whose feature another spec shows, run at full length only: make e2e FULL=1.
var full = Label("full")

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyPollingInterval(300 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)
	suite, reporter := GinkgoConfiguration()
	reporter.Verbose = true
	reporter.ShowNodeEvents = false
	RunSpecs(t, "PeerCache", suite, reporter)
}

var _ = BeforeSuite(func(ctx context.Context) {
	Expect(os.RemoveAll(evidenceFolder())).To(Succeed())
	var err error
	finished := false
	defer func() {
		if !finished {
			failed = true
			collectEvidence("BeforeSuite")
		}
	}()
	below, err = newHooks()
	Expect(err).NotTo(HaveOccurred())
	Expect(below.controlPlane(ctx, "start")).To(Succeed(), "a former run may have stopped the API server")
	kube, err = newAPIClient()
	Expect(err).NotTo(HaveOccurred())
	nodes = choosePlaces(ctx)
	for _, node := range nodes.all() {
		Expect(below.link(ctx, node, "up")).To(Succeed(), "a former run may have cut a link")
	}

	removeLeftovers(ctx)
	installOperator(ctx)
	createFromReadme(ctx)
	waitForNodes(ctx)
	waitForWebhook(ctx)
	writer, reader = startEngine(ctx, "writer", nodes.writer), startEngine(ctx, "reader", nodes.reader)
	writer.waitReady(ctx)
	reader.waitReady(ctx)
	finished = true
}, NodeTimeout(6*time.Minute))

// After a failure the cluster of all specs stays for a look, and the next run removes it. Specs remove what they added in any
// case: the specs after them want its processors. What they print and evidence_test.go have the rest.
var _ = AfterSuite(func(ctx context.Context) {
	if kube != nil && !failed {
		deleteAndWait(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, 2*time.Minute)
		if published != nil {
			_, err := below.registry(ctx, "down")
			Expect(err).NotTo(HaveOccurred())
		}
	}
}, NodeTimeout(longest))

var failed bool

// The order goes from what must work at all to what breaks more and more of it.
var _ = Describe("PeerCache", Ordered, ContinueOnFailure, func() {
	BeforeEach(func(ctx context.Context) {
		waitForNodes(ctx)
		waitForWebhook(ctx)
		writer.waitReady(ctx)
		reader.waitReady(ctx)
	}, NodeTimeout(longest))

	JustAfterEach(func() {
		if CurrentSpecReport().Failed() {
			failed = true
			collectEvidence(CurrentSpecReport().LeafNodeText)
		}
	})

	Context("is tested", runSpecs)
	Context("connects SGLang pods", injectionSpecs)
	Context("moves pages between machines", mainJobSpecs)
	Context("knows its nodes", tokenSpecs)
	Context("has a port for its nodes", networkPolicySpecs)
	Context("connects SGLang pods", modeSpecs)
	Context("connects SGLang pods", embeddedSpecs)
	Context("connects SGLang pods", restrictedSpecs)
	Context("connects SGLang pods", tenantSpecs)
	Context("connects SGLang pods", policySpecs)
	Context("connects SGLang pods of other controllers", recipeSpecs)
	Context("tells, as kubectl peercache,", kubectlSpecs)
	Context("lets SGLang start", engineFirstSpecs)
	Context("keeps serving", controlPlaneSpecs)
	Context("keeps serving", missedPodSpecs)
	Context("stands bad input", badSpecSpecs)
	Context("stands bad input", badInputSpecs)
	Context("bounds every call and gives no wrong byte", faultSpecs)
	Context("replaces its nodes", updateSpecs)
	Context("keeps pages in memory of the machines", poolFolderSpecs)
	Context("is upgraded under traffic", upgradeSpecs)
	Context("keeps what it promises", tlsSpecs)
	Context("keeps what it promises", rotationSpecs)
	Context("of a cluster with a network of its own", networkSpecs)
	Context("of a cluster whose ports are claimed", claimSpecs)
	Context("is watched", monitoringSpecs)
	Context("loses", removalSpecs)
	Context("has its pages still", diskSpecs) // after the others: its machine takes half a minute to register anew, once restarted
	Context("is removed,", fromNothingSpecs)
	Context("cleans up", deletionSpecs)
})

// since skips what needs a newer Kubernetes than the cluster's. The lanes' has all.
func since(minor int, what string) {
	if kube.minor < minor {
		Skip(fmt.Sprintf("Kubernetes 1.%d has no %s, which comes with 1.%d", kube.minor, what, minor))
	}
}

func artifacts() string {
	folder := os.Getenv("ARTIFACTS")
	if folder == "" {
		folder = "out"
	}
	folder, err := filepath.Abs(folder)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	return folder
}
