// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
)

// TestTheHealthOfAClusterInGitOps compares what Argo CD's script and kstatus, which Flux and kpt use, make of a cluster.
func TestTheHealthOfAClusterInGitOps(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	is := func(kind string, s metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: s, Reason: kind + "Reason", Message: "why"}
	}
	accepted := is(v1alpha1.ConditionConfigAccepted, yes)
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		change     func(*v1alpha1.PeerCacheCluster)
		argo       string // and the message
		kstatus    status.Status
	}{
		"new":           {nil, func(c *v1alpha1.PeerCacheCluster) { c.Status.ObservedGeneration = -1 }, "Progressing: the operator has not seen this spec yet", status.InProgressStatus},
		"starts":        {[]metav1.Condition{accepted, is("Ready", no), is("Progressing", yes)}, nil, "Progressing: members start or are replaced", status.InProgressStatus},
		"serves":        {[]metav1.Condition{accepted, is("Ready", yes), is("Progressing", no), is("Degraded", no)}, nil, "Healthy: ReadyReason: why", status.CurrentStatus},
		"spec changed":  {[]metav1.Condition{accepted, is("Ready", yes)}, func(c *v1alpha1.PeerCacheCluster) { c.Generation++ }, "Progressing: the operator has not seen this spec yet", status.InProgressStatus},
		"refused":       {[]metav1.Condition{is("ConfigAccepted", no), is("Ready", yes)}, nil, "Degraded: ConfigAcceptedReason: why", status.CurrentStatus},
		"a member fell": {[]metav1.Condition{accepted, is("Ready", no), is("Degraded", yes), is("Progressing", yes)}, nil, "Degraded: DegradedReason: why", status.InProgressStatus},
		"no machine":    {[]metav1.Condition{accepted, is("Ready", no), is("Progressing", no), is("Degraded", no)}, nil, "Degraded: ReadyReason: why", status.InProgressStatus},
		"not known":     {[]metav1.Condition{accepted, is("Ready", unknown), is("Progressing", no)}, nil, "Progressing: members start or are replaced", status.InProgressStatus},
		"plan":          {[]metav1.Condition{accepted, is("Ready", unknown)}, func(c *v1alpha1.PeerCacheCluster) { c.Spec.Mode = v1alpha1.ModePlan }, "Suspended: mode: Plan creates nothing", status.InProgressStatus},
		"paused": {[]metav1.Condition{accepted, is("Ready", yes), is("Progressing", yes)}, func(c *v1alpha1.PeerCacheCluster) {
			c.Status.Update = &v1alpha1.UpdateStatus{State: v1alpha1.UpdatePaused}
		}, "Suspended: ProgressingReason: why", status.CurrentStatus},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Name: "kv", Namespace: "inference", Generation: 3}}
			cluster.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PeerCacheCluster"))
			cluster.Status = v1alpha1.PeerCacheClusterStatus{ObservedGeneration: 3, Conditions: test.conditions}
			if test.change != nil {
				test.change(cluster)
			}
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
			if err != nil {
				t.Fatal(err)
			}
			if got := argoHealth(t, object); got != test.argo {
				t.Errorf("Argo CD: %q, want %q", got, test.argo)
			}
			result, err := status.Compute(&unstructured.Unstructured{Object: object})
			if err != nil || result.Status != test.kstatus {
				t.Errorf("kstatus: %+v, %v, want %s", result, err, test.kstatus)
			}
		})
	}
}

// argoHealth runs the script of config/argocd as Argo CD does: with obj, without the libraries that reach the machine.
func argoHealth(t *testing.T, object map[string]any) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "argocd", "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var patch corev1.ConfigMap
	if err := yaml.UnmarshalStrict(raw, &patch); err != nil {
		t.Fatal(err)
	}
	script := patch.Data["resource.customizations.health."+v1alpha1.GroupVersion.Group+"_PeerCacheCluster"]
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString} {
		state.Push(state.NewFunction(open))
		state.Call(0, 0)
	}
	state.SetGlobal("obj", luaValue(state, object))
	if err := state.DoString(script); err != nil || strings.TrimSpace(script) == "" {
		t.Fatalf("%v: %q", err, script)
	}
	health, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %s", state.Get(-1).Type())
	}
	return health.RawGetString("status").String() + ": " + health.RawGetString("message").String()
}

func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, element := range value {
			table.RawSetString(key, luaValue(state, element))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, element := range value {
			table.Append(luaValue(state, element))
		}
		return table
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case bool:
		return lua.LBool(value)
	default:
		return lua.LNil
	}
}
