// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestBypass(t *testing.T) {
	on := func(c *v1alpha1.PeerCacheCluster) { c.Spec.Injection.Bypass = v1alpha1.SwitchEnabled }
	for name, test := range map[string]struct {
		change  func(*v1alpha1.PeerCacheCluster)
		label   []string // of node-a
		args    []string
		says    string
		cluster bool   // spec.injection.bypass afterwards
		machine string // the label of node-a afterwards
		status  int
	}{
		"a cluster":           {nil, nil, []string{"kv"}, "inference/kv: SGLang pods run without the cache", true, "", 0},
		"a cluster no more":   {on, nil, []string{"kv", "--off"}, "inference/kv: SGLang pods use the cache again", false, "", 0},
		"a machine":           {nil, nil, []string{"--node=node-a"}, "Kubernetes node node-a: SGLang pods run without the cache", false, "on", 0},
		"a machine no more":   {nil, []string{v1alpha1.LabelBypass + "=on"}, []string{"--node=node-a", "--off"}, "use the cache again", false, "", 0},
		"a machine, again":    {nil, []string{v1alpha1.LabelBypass + "=on"}, []string{"--node=node-a"}, "run without the cache", false, "on", 0},
		"another machine":     {nil, nil, []string{"--node=node-x"}, "no Kubernetes node node-x", false, "", 1},
		"another cluster":     {nil, nil, []string{"other"}, "no PeerCacheCluster other; it has kv", false, "", 1},
		"nothing":             {nil, nil, nil, "name what to bypass", false, "", 1},
		"both":                {nil, nil, []string{"kv", "--node=node-a"}, "leave NAME out, or --node", false, "", 1},
		"more than one":       {nil, nil, []string{"kv", "other"}, "takes one NAME", false, "", 1},
		"a cluster, a second": {on, nil, []string{"kv"}, "run without the cache", true, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(c *v1alpha1.PeerCacheCluster) {
				if test.change != nil {
					test.change(c)
				}
			}
			objects := store(t, cluster("kv", change), labelledNode("node-a", test.label...))
			got := runCommandOn(t, &fakePods{}, objects, nil, append([]string{"bypass"}, test.args...)...)
			if got.status != test.status || !strings.Contains(got.stdout+got.stderr, test.says) {
				t.Errorf("status %d, says %q, errors %q", got.status, got.stdout, got.stderr)
			}
			after := &v1alpha1.PeerCacheCluster{}
			if err := objects.Get(t.Context(), client.ObjectKey{Namespace: "inference", Name: "kv"}, after); err != nil {
				t.Fatal(err)
			}
			if (after.Spec.Injection.Bypass == v1alpha1.SwitchEnabled) != test.cluster {
				t.Errorf("bypass is %s, want %t", after.Spec.Injection.Bypass, test.cluster)
			}
			if value := labelsOf(t, objects, "node-a")[v1alpha1.LabelBypass]; value != test.machine {
				t.Errorf("the label is %q, want %q", value, test.machine)
			}
		})
	}
}
