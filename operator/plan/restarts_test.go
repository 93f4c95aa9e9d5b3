// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/markdown"
)

const rolloutPage = "../../docs/rollout.md"

// changes has one change for each field that docs/rollout.md names, by that name.
var changes = map[string]struct {
	restarts bool
	change   func(*v1alpha1.PeerCacheClusterSpec)
}{
	"layout":          {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Layout = v1alpha1.LayoutPerRail }},
	"image":           {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "other" }},
	"imagePullPolicy": {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.ImagePullPolicy = corev1.PullAlways }},
	"imagePullSecrets": {true, func(s *v1alpha1.PeerCacheClusterSpec) {
		s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "x"}}
	}},
	"transport": {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Transport = v1alpha1.TransportTCP }},
	"rails":     {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails[0].Network.Interface = "other" }},
	"memory":    {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.Pool = resource.MustParse("3Gi") }},
	"disk":      {true, onDisk("/mnt/a")},
	"resources": {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Resources.CPU = resource.MustParse("7") }},
	"podTemplate": {true, func(s *v1alpha1.PeerCacheClusterSpec) {
		s.PodTemplate = &v1alpha1.PodTemplate{Metadata: v1alpha1.PodTemplateMetadata{Labels: map[string]string{"a": "b"}}}
	}},
	"nodes":           {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Nodes.Selector = map[string]string{"a": "b"} }},
	"nodePools":       {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.NodePools = []v1alpha1.NodePool{{Name: "p"}} }},
	"rdma":            {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.RDMA.TrafficClass = new(int32(104)) }},
	"extraConfig":     {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.ExtraConfig = map[string]string{"io-threads": "4"} }},
	"timing":          {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.LeaseMilliseconds++ }},
	"security":        {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "s"} }},
	"sharing":         {true, shareAll},
	"discovery.port":  {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Port++ }},
	"monitoring.port": {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Monitoring.Port++ }},
	"discovery.interface": {true, func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Rails[0].Network.Interface, s.Discovery.Interface = "fabric", "fabric"
	}},
	"discovery.replicas": {false, func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Replicas++ }},
	"monitoring": {false, func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Monitoring.Scrape, s.Monitoring.Rules = v1alpha1.ScrapePodMonitor, v1alpha1.RulesPrometheusRule
		s.Monitoring.Dashboards, s.Monitoring.Interval = v1alpha1.DashboardsConfigMap, "15s"
		s.Monitoring.Labels = map[string]string{"a": "b"}
	}},
	"injection": {false, func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Injection.Mode, s.Injection.Client.Image = v1alpha1.InjectionSidecar, "other"
		s.Injection.MissedPods = v1alpha1.MissedPodsRecreate
	}},
	"engines": {false, func(s *v1alpha1.PeerCacheClusterSpec) { s.Engines.VLLM.HostMemory = resource.MustParse("8Gi") }},
	"provision": {false, func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Provision.DevicePlugin = &v1alpha1.DevicePluginSpec{Image: "plugin", Resources: []v1alpha1.SharedResource{{Rail: "rail0"}}}
	}},
	"update": {false, func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Update = v1alpha1.UpdateSpec{
			Strategy: v1alpha1.UpdateOnDelete, MaxUnavailable: new(intstr.FromString("10%")), MaxHitRatioDrop: new(int32(20)),
		}
	}},
	"update.drainBudget": {true, func(s *v1alpha1.PeerCacheClusterSpec) { s.Update.DrainBudget = new(resource.MustParse("1Gi")) }},
	"mode":               {false, func(s *v1alpha1.PeerCacheClusterSpec) { s.Mode = v1alpha1.ModePlan }},
}

// TestWhatRestartsMembers checks which changes restart members: those that change the pod template. docs/rollout.md lists
// them.
func TestWhatRestartsMembers(t *testing.T) {
	for name, c := range changes {
		cluster := testCluster(withRails(v1alpha1.TransportRDMA, shared("rail0", 0)))
		before := mustPlan(t, cluster).DaemonSets[0].Spec.Template
		c.change(&cluster.Spec)
		after := mustPlan(t, cluster).DaemonSets[0].Spec.Template
		if restarts := !equality.Semantic.DeepEqual(before, after); restarts != c.restarts {
			t.Errorf("%s: restarts members: %t, expected %t", name, restarts, c.restarts)
		}
	}
}

// TestRestartsAreDocumented compares the page with changes.
func TestRestartsAreDocumented(t *testing.T) {
	page, err := markdown.Read(rolloutPage)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(page.Tables, func(table markdown.Table) bool { return table.Head[0] == "field of `spec`" })
	if i < 0 {
		t.Fatalf("%s has no table of fields", rolloutPage)
	}
	documented := map[string]bool{}
	for _, row := range page.Tables[i].Rows {
		for _, field := range regexp.MustCompile("`([a-zA-Z.]+)`").FindAllStringSubmatch(row[0], -1) {
			documented[field[1]] = true
			expected, known := changes[field[1]]
			if says := !strings.HasPrefix(row[1], "none"); !known || says != expected.restarts {
				t.Errorf("%s says that %s restarts members: %t; expected %t (known: %t)", rolloutPage, field[1], says, expected.restarts, known)
			}
		}
	}
	for field := range changes {
		if !documented[field] {
			t.Errorf("%s does not say whether %s restarts members", rolloutPage, field)
		}
	}
}
