// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

func labelledNode(name string, labels ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux",
	}}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		node.Labels[key] = value
	}
	return node
}

// owned adds the DaemonSet that the operator makes for a cluster, and makes it the owner of the pods.
func owned(t *testing.T, c *v1alpha1.PeerCacheCluster, pods ...*corev1.Pod) []client.Object {
	t.Helper()
	c.UID = types.UID("uid-of-" + c.Name)
	desired, err := plan.For(c, plan.Facts{DataplaneImage: "dataplane:1"})
	if err != nil {
		t.Fatal(err)
	}
	daemonSet := desired.DaemonSets[0]
	daemonSet.UID = types.UID("uid-of-" + daemonSet.Name)
	objects := []client.Object{c, daemonSet}
	for _, pod := range pods {
		pod.Labels = daemonSet.Spec.Template.Labels
		if pod.Name[len(pod.Name)-1] != 'b' {
			pod.Labels = map[string]string{v1alpha1.LabelDiscovery: v1alpha1.DiscoveryHost}
			maps.Copy(pod.Labels, daemonSet.Spec.Template.Labels)
		}
		pod.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(daemonSet, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
		objects = append(objects, pod)
	}
	return objects
}

// threeMachines run cluster kv. Machine node-b also runs the only node of cluster small, which does not answer.
func threeMachines(t *testing.T, labelsOfB ...string) (*fakePods, client.Client) {
	t.Helper()
	all := strings.Join([]string{
		memberJSON("node-a", "active", "closed", true), memberJSON("node-b", "draining", "closed", true), memberJSON("node-c", "active", "closed", true),
	}, ",")
	left := strings.Join([]string{memberJSON("node-a", "active", "closed", true), memberJSON("node-c", "active", "closed", true)}, ",")
	pods := &fakePods{answers: map[string][]any{
		"kv-default-a /v1/status": {status("node-a", all, "", ""), status("node-a", left, "", "")},
		"kv-default-b /v1/status": {status("node-b", all, "", "")},
		"kv-default-c /v1/status": {status("node-c", left, "", "")},
	}}
	objects := owned(t, cluster("kv"), nodePod("node-a"), nodePod("node-b"), nodePod("node-c"))
	small := cluster("small", func(c *v1alpha1.PeerCacheCluster) { c.Status.ReadyMembers = 1 })
	small.Namespace = "elsewhere"
	small.Spec.Nodes.Selector = map[string]string{"kubernetes.io/hostname": "node-b"}
	only := nodePod("node-b")
	only.Namespace, only.Name = "elsewhere", "small-default-b"
	objects = append(objects, owned(t, small, only)...)
	return pods, store(t, append(objects, labelledNode("node-a"), labelledNode("node-b", labelsOfB...), labelledNode("node-c"), labelledNode("node-d", "x=y"))...)
}

func labelOf(t *testing.T, s client.Client, name string) string {
	t.Helper()
	return labelsOf(t, s, name)[v1alpha1.LabelDrain]
}

func labelsOf(t *testing.T, s client.Client, name string) map[string]string {
	t.Helper()
	node := &corev1.Node{}
	if err := s.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	if node.Labels["kubernetes.io/hostname"] != name {
		t.Errorf("other labels of %s are lost: %v", name, node.Labels)
	}
	return node.Labels
}

func TestDrain(t *testing.T) {
	pods, s := threeMachines(t)
	got := runCommandOn(t, pods, s, nil, "drain", "node-b", "--dry-run")
	if got.status != 0 || labelOf(t, s, "node-b") != "" || !strings.HasSuffix(got.stdout, "nothing was changed (--dry-run)\n") {
		t.Errorf("--dry-run: %+v, the label is %q", got, labelOf(t, s, "node-b"))
	}
	got = runCommandOn(t, pods, s, nil, "drain", "node-b")
	if got.status != 0 || got.stderr != "" || labelOf(t, s, "node-b") != "true" {
		t.Errorf("%+v, the label is %q", got, labelOf(t, s, "node-b"))
	}
	golden(t, "drain.txt", got.stdout)
	again := runCommandOn(t, pods, s, nil, "drain", "node-b")
	if again.status != 0 || !strings.HasPrefix(again.stdout, "node-b is drained already\n") {
		t.Errorf("a second time: %+v", again)
	}
	if !strings.Contains(got.stdout, "node-b is not cordoned") {
		t.Errorf("nobody says that SGLang may be scheduled there:\n%s", got.stdout)
	}
	cordoned := &corev1.Node{}
	if err := s.Get(t.Context(), client.ObjectKey{Name: "node-a"}, cordoned); err != nil {
		t.Fatal(err)
	}
	cordoned.Spec.Unschedulable = true
	if err := s.Update(t.Context(), cordoned); err != nil {
		t.Fatal(err)
	}
	if got := runCommandOn(t, pods, s, nil, "drain", "node-a", "--dry-run"); got.status != 0 || strings.Contains(got.stdout, "cordoned") {
		t.Errorf("a cordoned machine: %+v", got)
	}
	for _, name := range []string{"node-a", "node-c"} {
		if label := labelOf(t, s, name); label != "" {
			t.Errorf("%s is drained too: %q", name, label)
		}
	}
}

// TestDrainWaits checks that --wait returns once the pods are gone and no host lists the member, and prints each step
// once.
func TestDrainWaits(t *testing.T) {
	pods, s := threeMachines(t)
	change := func(namespace, name string, delete bool) {
		pod := &corev1.Pod{}
		if err := s.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
			t.Fatal(err)
		}
		pod.Finalizers = []string{"test/stays"}
		if !delete {
			pod.Finalizers = nil
		}
		if err := s.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if delete {
			if err := s.Delete(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := runCommandOn(t, pods, s, func(round int) {
		switch round {
		case 2:
			change("inference", "kv-default-b", true)
			change("elsewhere", "small-default-b", true)
		case 4:
			change("inference", "kv-default-b", false)
			change("elsewhere", "small-default-b", false)
		}
	}, "drain", "node-b", "--wait", "-o", "json")
	if got.status != 0 {
		t.Fatalf("%+v", got)
	}
	golden(t, "drain-wait.txt", got.stderr)
	var r drainReport
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatalf("%v: %s", err, got.stdout)
	}
	if !r.Complete || r.Already || r.Machine != "node-b" || r.Action != "drain" || len(r.Members) != 2 ||
		r.Members[1].Engines != 1 || r.Members[1].UsedBytes != 16<<30 || r.Members[1].Elsewhere != 2 ||
		r.Members[0].Cluster.Namespace != "elsewhere" || r.Members[0].State != "unknown" || r.Members[0].Elsewhere != 0 {
		t.Errorf("report %+v", r)
	}
}

func TestDrainDoesNotWaitForEver(t *testing.T) {
	pods, s := threeMachines(t)
	rounds := 0
	got := runCommandOn(t, pods, s, func(round int) { rounds = round }, "drain", "node-b", "--wait", "--timeout", "30s")
	if got.status != 1 || rounds != 30 || !strings.Contains(got.stderr, "error: node-b: drain is not complete after 30s: elsewhere/small "+
		"node-b.default still runs: the DaemonSet controller has not deleted pod small-default-b; inference/kv") {
		t.Errorf("after %d rounds: %+v", rounds, got)
	}
	if labelOf(t, s, "node-b") != "true" {
		t.Error("the label is gone")
	}
}

func TestUndrain(t *testing.T) {
	pods, s := threeMachines(t, "peercache.io/drain=true")
	for _, name := range []client.ObjectKey{{Namespace: "inference", Name: "kv-default-b"}, {Namespace: "elsewhere", Name: "small-default-b"}} {
		if err := s.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}); err != nil {
			t.Fatal(err)
		}
	}
	objects := map[int][]*corev1.Pod{}
	kv, small := &v1alpha1.PeerCacheCluster{}, &v1alpha1.PeerCacheCluster{}
	for key, c := range map[client.ObjectKey]*v1alpha1.PeerCacheCluster{
		{Namespace: "inference", Name: "kv"}: kv, {Namespace: "elsewhere", Name: "small"}: small,
	} {
		if err := s.Get(t.Context(), key, c); err != nil {
			t.Fatal(err)
		}
	}
	first, second := nodePod("node-b"), nodePod("node-b")
	owned(t, kv, first)
	second.Namespace, second.Name = "elsewhere", "small-default-b"
	owned(t, small, second)
	objects[1], objects[3] = []*corev1.Pod{first}, []*corev1.Pod{second}
	got := runCommandOn(t, pods, s, func(round int) {
		for _, pod := range objects[round] {
			if err := s.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
	}, "undrain", "node-b", "--wait")
	if got.status != 0 || labelOf(t, s, "node-b") != "" {
		t.Errorf("%+v", got)
	}
	golden(t, "undrain.txt", got.stdout+"---\n"+got.stderr)
	again := runCommandOn(t, pods, s, nil, "undrain", "node-b")
	if again.status != 0 || again.stdout != "node-b is not drained\n" {
		t.Errorf("a second time: %+v", again)
	}
	// Another value of the label drains nothing, and undrain removes it too.
	pods, s = threeMachines(t, "peercache.io/drain=yes")
	if got := runCommandOn(t, pods, s, nil, "undrain", "node-b"); got.status != 0 || labelOf(t, s, "node-b") != "" {
		t.Errorf("%+v", got)
	}
}

func TestDrainRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		change func(s client.Client) error
		want   string
	}{
		"no such machine":    {[]string{"drain", "node-z"}, nil, "there is no Kubernetes node node-z: see kubectl get nodes"},
		"a member's name":    {[]string{"undrain", "node-b.default"}, nil, "a member is called machine.group"},
		"no machine named":   {[]string{"drain"}, nil, "takes the name of one Kubernetes node, and there are 0"},
		"two machines named": {[]string{"drain", "node-a", "node-b"}, nil, "and there are 2"},
		"nothing there": {[]string{"drain", "node-a"}, func(s client.Client) error {
			return s.DeleteAllOf(t.Context(), &appsv1.DaemonSet{}, client.InNamespace("inference"))
		}, "no PeerCacheCluster has a member on node-a, so there is nothing to drain"},
		"an operator that knows no drain": {[]string{"drain", "node-a"}, func(s client.Client) error {
			daemonSet := &appsv1.DaemonSet{}
			err := s.Get(t.Context(), client.ObjectKey{Namespace: "inference", Name: "kv-default"}, daemonSet)
			daemonSet.Spec.Template.Spec.Affinity = nil
			return errors.Join(err, s.Update(t.Context(), daemonSet))
		}, "pod inference/kv-default-a would stay on node-a, because DaemonSet kv-default ignores the label peercache.io/drain"},
	} {
		t.Run(name, func(t *testing.T) {
			pods, s := threeMachines(t)
			if test.change != nil {
				if err := test.change(s); err != nil {
					t.Fatal(err)
				}
			}
			got := runCommandOn(t, pods, s, nil, test.args...)
			if got.status != 1 || got.stdout != "" || !strings.Contains(got.stderr, test.want) {
				t.Errorf("status %d, stdout %q, stderr %q, want %q", got.status, got.stdout, got.stderr, test.want)
			}
			for _, machine := range []string{"node-a", "node-b"} {
				if label := labelOf(t, s, machine); label != "" {
					t.Errorf("%s was labelled %q", machine, label)
				}
			}
		})
	}
}
