// SPDX-License-Identifier: Apache-2.0

//go:build render

package charts

import (
	"maps"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/diff"
)

// TestSameObjects: Helm with default values and kustomize install the same.
func TestSameObjects(t *testing.T) {
	compare(t, helmTemplate(t), kustomizeBuild(t, "../config/default"))
}

// TestSameMonitoring: so they do for Prometheus.
func TestSameMonitoring(t *testing.T) {
	all := helmTemplate(t, "metrics.podMonitors.enabled=true", "metrics.rules.enabled=true")
	maps.DeleteFunc(all, func(key id, _ *unstructured.Unstructured) bool {
		return key.kind != "PodMonitor" && key.kind != "PrometheusRule"
	})
	compare(t, all, kustomizeBuild(t, "../config/prometheus"))
}

// TestSameAdditions: so they do for what is installed besides on request.
func TestSameAdditions(t *testing.T) {
	for value, added := range map[string]struct {
		folder string
		count  int
	}{
		"csi.enabled":           {"../config/csi", 6},
		"networkPolicy.enabled": {"../config/networkpolicy", 1},

		"metrics.dashboards.enabled": {"../config/grafana", 1},

		"admission.requireDaemonSets.enabled": {"../config/writers", 2},

		"rbac.admissionPolicies.enabled": {"../config/rights/admission-policies", 2},
		"rbac.missedPods.enabled":        {"../config/rights/missed-pods", 2},
		"rbac.networks.enabled":          {"../config/rights/networks", 2},
		"rbac.monitoring.enabled":        {"../config/rights/monitoring", 2},
	} {
		without, all := helmTemplate(t), helmTemplate(t, value+"=true")
		maps.DeleteFunc(all, func(key id, _ *unstructured.Unstructured) bool { return without[key] != nil })
		if len(all) != added.count {
			t.Errorf("%s adds %d objects, want %d", value, len(all), added.count)
		}
		compare(t, all, kustomizeBuild(t, added.folder))
	}
}

// TestSameOverlays: each overlay is what Helm makes with some values, and there is none that is not looked at.
func TestSameOverlays(t *testing.T) {
	monitoring := []string{"metrics.podMonitors.enabled=true", "metrics.rules.enabled=true"}
	overlays := map[string][]string{
		"with-csi":        {"csi.enabled=true"},
		"with-monitoring": monitoring,
		"namespaced":      {"watchNamespaces={inference}"},
		"production":      append(monitoring, "csi.enabled=true", "networkPolicy.enabled=true"),
	}
	folders, err := filepath.Glob("../config/overlays/*")
	if err != nil || len(folders) != len(overlays) {
		t.Errorf("overlays are %q (error %v)", folders, err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			compare(t, helmTemplate(t, overlays[filepath.Base(folder)]...), kustomizeBuild(t, folder))
		})
	}
}

func compare(t *testing.T, helm, kustomize objects) {
	t.Helper()
	// Helm makes the namespace itself (--create-namespace).
	delete(kustomize, id{kind: "Namespace", name: namespace})
	for key, object := range kustomize {
		if helm[key] == nil {
			t.Errorf("kustomize renders %v, Helm does not", key)
			continue
		}
		normalise(helm[key])
		if difference := diff.Diff(object.Object, helm[key].Object); difference != "" {
			t.Errorf("%v differs (-kustomize +Helm):\n%s", key, difference)
		}
	}
	for key := range helm {
		if kustomize[key] == nil {
			t.Errorf("Helm renders %v, kustomize does not", key)
		}
	}
}

// normalise takes away what only makes sense in a release of Helm, and nothing else: the labels by which
// releases are found, on the object itself, and the annotation that Helm reads at uninstalling.
func normalise(object *unstructured.Unstructured) {
	labels := object.GetLabels()
	for _, key := range []string{
		"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart",
	} {
		delete(labels, key)
	}
	object.SetLabels(labels)
	annotations := object.GetAnnotations()
	delete(annotations, "helm.sh/resource-policy")
	object.SetAnnotations(annotations)
}
