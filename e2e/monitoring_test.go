// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// monitoringSpecs install the Prometheus Operator beside a cluster that has asked for its objects before, and ask the
// Prometheus that it runs what has become of them.
func monitoringSpecs() {
	watched := func(scrape v1alpha1.ScrapeKind) func(*v1alpha1.PeerCacheClusterSpec) {
		return func(spec *v1alpha1.PeerCacheClusterSpec) {
			spec.Monitoring.Scrape, spec.Monitoring.Interval = scrape, "2s"
			spec.Monitoring.Rules = v1alpha1.RulesPrometheusRule
		}
	}
	expectMonitoring := func(ctx context.Context, begin string) {
		Eventually(func(g Gomega) {
			cluster := &v1alpha1.PeerCacheCluster{}
			g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster)).To(Succeed())
			g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation))
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionMonitoringReady)).To(HavePrefix(begin))
			g.Expect(conditionMessage(cluster, v1alpha1.ConditionReady)).To(HavePrefix("True"))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
	}

	installed := false
	// Each spec asks for what it needs: a spec that is tried again runs without the ones before it.
	install := func(ctx context.Context, scrape v1alpha1.ScrapeKind) {
		changeSpec(ctx, watched(scrape))
		if !installed {
			Expect(below.monitoring(ctx, "up")).To(Succeed())
			installed = true
		}
	}

	BeforeAll(func(ctx context.Context) {
		Expect(below.monitoring(ctx, "down")).To(Succeed(), "a former run may have left it")
	}, NodeTimeout(10*time.Minute))

	It("by nobody before there is a Prometheus Operator, and by its Prometheus from then on", func(ctx context.Context) {
		changeSpec(ctx, watched(v1alpha1.ScrapePodMonitor))
		expectMonitoring(ctx, "False PrometheusOperatorMissing")

		install(ctx, v1alpha1.ScrapePodMonitor)
		expectMonitoring(ctx, "True Made")
		expectTargets(ctx, "podMonitor/"+namespace+"/"+clusterName+"-metrics/0", len(nodes.all()))

		By("recording what the nodes say of themselves")
		writeAll(ctx, request{Kind: "mha", Layout: "page_first", V1: true, Pages: 100, Seed: freshSeed()})
		Eventually(func(g Gomega) {
			var used, capacity float64
			for _, node := range nodes.all() {
				m := nodeMetrics(ctx, node)
				used += m[`peercache_pool_bytes{state="used"}`]
				capacity += m["peercache_pool_capacity_bytes"]
			}
			g.Expect(used).To(BeNumerically(">", 0))
			recorded, err := queryPrometheus(ctx, fmt.Sprintf("peercache:pool_used:ratio{namespace=%q,peercache_io_cluster=%q}", namespace, clusterName))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(recorded).To(HaveLen(1))
			g.Expect(recorded[0]).To(BeNumerically("~", used/capacity, 1e-6))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
	}, SpecTimeout(9*time.Minute))

	// Its rule waits for five minutes before somebody is told; here it has come as far as Prometheus' waiting.
	It("which holds an alert ready for a node that does not answer, and drops it when it does", func(ctx context.Context) {
		signal := func(ctx context.Context, name string) {
			_, err := below.exec(ctx, nodes.third, "pkill", "-"+name, "-x", "peercached")
			Expect(err).NotTo(HaveOccurred())
		}
		about := func(g Gomega) []alert { return alertsOf(ctx, g, "PeerCacheNodeDown") }
		install(ctx, v1alpha1.ScrapePodMonitor)
		expectMonitoring(ctx, "True Made")
		expectTargets(ctx, "podMonitor/"+namespace+"/"+clusterName+"-metrics/0", len(nodes.all()))
		func() {
			signal(ctx, "STOP")
			defer signal(context.WithoutCancel(ctx), "CONT")
			Eventually(func(g Gomega) {
				g.Expect(about(g)).To(ConsistOf(And(HaveField("State", "pending"), HaveField("Labels", And(
					HaveKeyWithValue("node", nodes.third), HaveKeyWithValue("severity", "warning"))))))
			}).WithContext(ctx).WithTimeout(40 * time.Second).Should(Succeed()) // after 60 s the kubelet kills it
		}()
		Eventually(func(g Gomega) { g.Expect(about(g)).To(BeEmpty()) }).
			WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
	}, SpecTimeout(longest))

	It("by the chart's monitors, with an alert that fires for a pod that is not connected", func(ctx context.Context) {
		install(ctx, v1alpha1.ScrapeNone) // or nodes are scraped twice
		installOperator(ctx, "--set", "metrics.podMonitors.enabled=true,metrics.podMonitors.interval=2s,metrics.rules.enabled=true")
		expectTargets(ctx, "podMonitor/"+systemNamespace+"/peercache-operator/0", int(operators(ctx)))
		expectTargets(ctx, "podMonitor/"+systemNamespace+"/peercache-nodes/0", len(allNodePods(ctx)))
		expectTargets(ctx, "podMonitor/"+namespace+"/"+clusterName+"-metrics/0", 0)

		stray := enginePod("stray", nodes.third)
		stray.Labels[v1alpha1.LabelInject] = "nowhere"
		stray.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "peercache.io/e2e"}} // it need not run
		DeferCleanup(func(ctx context.Context) { deleteAndWait(ctx, stray, time.Minute) })
		Expect(kube.Create(ctx, stray)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(alertsOf(ctx, g, "PeerCachePodsNotConnected")).To(ContainElement(And(HaveField("State", "firing"),
				HaveField("Labels", HaveKeyWithValue("reason", "no_cluster")))))
		}).WithContext(ctx).WithTimeout(90 * time.Second).Should(Succeed())
	}, SpecTimeout(6*time.Minute))

	It("by nobody when the Prometheus Operator is gone, with an operator that is quiet about it", func(ctx context.Context) {
		changeSpec(ctx, watched(v1alpha1.ScrapePodMonitor))
		installOperator(ctx)
		Expect(below.monitoring(ctx, "down")).To(Succeed())
		installed = false
		expectMonitoring(ctx, "False PrometheusOperatorMissing")
		expectQuiet(ctx)
		changeSpec(ctx, func(spec *v1alpha1.PeerCacheClusterSpec) { spec.Monitoring = v1alpha1.MonitoringSpec{} })
		expectMonitoring(ctx, "True NotNeeded")
	}, SpecTimeout(6*time.Minute))
}

// askPrometheus asks Prometheus' HTTP API; what it answers is read into data.
func askPrometheus(ctx context.Context, path string, parameters map[string]string, data any) error {
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	body, err := kube.clientset.CoreV1().Pods("monitoring").
		ProxyGet("http", "prometheus-main-0", "9090", "/api/v1/"+path, parameters).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("asking Prometheus for %s: %w", path, err)
	}
	if err := json.Unmarshal(body, &struct {
		Data any `json:"data"`
	}{data}); err != nil {
		return fmt.Errorf("what Prometheus answers to %s: %w\n%s", path, err, body)
	}
	return nil
}

// allNodePods are those of all clusters: what a spec that failed has left for a look is watched as well.
func allNodePods(ctx context.Context) []corev1.Pod {
	var pods corev1.PodList
	Expect(kube.List(ctx, &pods, client.MatchingLabels{"app.kubernetes.io/name": "peercache", "app.kubernetes.io/component": "node"})).
		To(Succeed())
	return pods.Items
}

// expectTargets waits until a monitor has as many targets, and all of them are up. What changes in the moment between the
// reloader's first look and its watching is loaded with its next look, after three minutes.
func expectTargets(ctx context.Context, monitor string, count int) {
	Eventually(func(g Gomega) {
		var found struct {
			ActiveTargets []struct{ ScrapePool, ScrapeURL, Health, LastError string }
		}
		g.Expect(askPrometheus(ctx, "targets", map[string]string{"state": "active", "scrapePool": monitor}, &found)).To(Succeed())
		for _, target := range found.ActiveTargets {
			g.Expect(target.Health).To(Equal("up"), "%s: %s", target.ScrapeURL, target.LastError)
		}
		g.Expect(found.ActiveTargets).To(HaveLen(count), "targets of %s", monitor)
	}).WithContext(ctx).WithTimeout(4 * time.Minute).Should(Succeed())
}

// queryPrometheus returns the values of an expression.
func queryPrometheus(ctx context.Context, expression string) ([]float64, error) {
	var found struct {
		Result []struct{ Value [2]json.RawMessage }
	}
	if err := askPrometheus(ctx, "query", map[string]string{"query": expression}, &found); err != nil {
		return nil, err
	}
	var values []float64
	for _, result := range found.Result {
		var value float64
		if _, err := fmt.Sscanf(string(result.Value[1]), `"%g"`, &value); err != nil {
			return nil, fmt.Errorf("value %s of %s: %w", result.Value[1], expression, err)
		}
		values = append(values, value)
	}
	return values, nil
}

// alert is one that is pending or firing.
type alert struct {
	State  string
	Labels map[string]string
}

func alertsOf(ctx context.Context, g Gomega, name string) (named []alert) {
	var found struct{ Alerts []alert }
	g.Expect(askPrometheus(ctx, "alerts", nil, &found)).To(Succeed())
	for _, a := range found.Alerts {
		if a.Labels["alertname"] == name {
			named = append(named, a)
		}
	}
	return named
}
