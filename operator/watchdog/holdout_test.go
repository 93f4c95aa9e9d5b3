// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/names"
)

func TestMetricHasThePodsOfBothGroups(t *testing.T) {
	pod := func(name, group string, changes ...func(*corev1.Pod)) client.Object {
		return meta(append([]func(*corev1.Pod){annotated(names.AnnotationInjected), func(p *corev1.Pod) {
			p.Name, p.Annotations[names.AnnotationHoldout] = name, group
		}}, changes...)...)
	}
	elsewhere := func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationClusterNamespace] = "caches" }
	collector := &comparedCollector{desc: compared.desc}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("before there is a cache: %v, error %v", families, err)
	}
	collector.pods.Store(&podReader{fake.NewClientBuilder().WithObjects(
		pod("a", "true"), pod("b", "false", elsewhere),
		pod("c", "", func(p *corev1.Pod) { delete(p.Annotations, names.AnnotationHoldout) }), // of a cluster without a holdout
		pod("e", "true", func(p *corev1.Pod) { delete(p.Annotations, names.AnnotationInjected) }),
		pod("f", "true", func(p *corev1.Pod) { p.Labels = nil }),
	).Build()})
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v, error %v", families, err)
	}
	var got []string
	for _, metric := range families[0].GetMetric() {
		var labels []string
		for _, label := range metric.GetLabel() {
			labels = append(labels, label.GetValue())
		}
		got = append(got, strings.Join(labels, " "))
	}
	// In the order of their names: cluster, cluster_namespace, engine_namespace, engine_pod, group.
	if want := []string{"kv caches serving b cache", "kv serving serving a holdout", "kv serving serving c cache"}; !slices.Equal(got, want) {
		t.Errorf("pods %q, want %q", got, want)
	}
}
