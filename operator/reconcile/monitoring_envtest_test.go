// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
)

// exists is true where an object of the Prometheus Operator exists.
func (b *bench) exists(kind, name string) bool {
	b.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: kind})
	err := testenv.Client(b.T).Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, object)
	b.must(client.IgnoreNotFound(err))
	return err == nil
}

// TestMonitoring installs the Prometheus Operator while this operator runs.
func TestMonitoring(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Monitoring = v1alpha1.MonitoringSpec{
			Scrape: v1alpha1.ScrapePodMonitor, Interval: "15s", Rules: v1alpha1.RulesPrometheusRule,
			Dashboards: v1alpha1.DashboardsConfigMap, Labels: map[string]string{"release": "prometheus"},
		}
	})
	b.pass()
	b.condition("MonitoringReady", metav1.ConditionFalse, "PrometheusOperatorMissing", "PodMonitor and PrometheusRule")
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
	b.daemonSet("default")
	dashboards := &corev1.ConfigMap{}
	b.read("demo-dashboards", dashboards)

	installKinds(t, "testdata/prometheus-operator.yaml", schema.GroupKind{Group: "monitoring.coreos.com", Kind: "PrometheusRule"})
	b.pass()
	b.condition("MonitoringReady", metav1.ConditionTrue, "Made", "PodMonitor")
	if !b.exists("PodMonitor", "demo-metrics") || !b.exists("PrometheusRule", "demo-metrics") {
		t.Error("the monitor or the rules are missing")
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Monitoring.Scrape = v1alpha1.ScrapeServiceMonitor })
	b.pass()
	if b.exists("PodMonitor", "demo-metrics") || !b.exists("ServiceMonitor", "demo-metrics") {
		t.Error("both kinds of monitors are there, or none")
	}
	b.read("demo-metrics", &corev1.Service{})
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Monitoring = v1alpha1.MonitoringSpec{} })
	b.pass()
	b.condition("MonitoringReady", metav1.ConditionTrue, "NotNeeded", "")
	if b.exists("ServiceMonitor", "demo-metrics") || b.exists("PrometheusRule", "demo-metrics") {
		t.Error("the monitor or the rules are still there")
	}
	for _, object := range []client.Object{&corev1.Service{}, &corev1.ConfigMap{}} {
		for _, name := range []string{"demo-metrics", "demo-dashboards"} {
			if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, object); !apierrors.IsNotFound(err) {
				t.Errorf("%T %s is still there (error %v)", object, name, err)
			}
		}
	}
}
