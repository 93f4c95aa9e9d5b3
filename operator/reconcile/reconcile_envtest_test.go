// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

func hostRail(name, group string) v1alpha1.Rail {
	return v1alpha1.Rail{Name: name, Group: group, Attachment: v1alpha1.AttachmentHostNetwork, Device: "mlx5_" + name}
}

func sharedRail(name, group string) v1alpha1.Rail {
	return v1alpha1.Rail{Name: name, Group: group, Attachment: v1alpha1.AttachmentSharedDevicePlugin, ResourceName: "rdma/x"}
}

func TestFirstPassCreatesEverything(t *testing.T) {
	b := newBench(t)
	cluster := b.cluster()
	b.pass()
	for _, object := range []struct {
		name string
		into client.Object
	}{
		{"demo-node", &corev1.ServiceAccount{}},
		{"demo-config", &corev1.ConfigMap{}},
		{"demo-discovery", &corev1.Service{}},
		{"demo-default", &appsv1.DaemonSet{}},
	} {
		b.read(object.name, object.into)
		if !metav1.IsControlledBy(object.into, cluster) {
			t.Errorf("%T %s would outlive the cluster: %+v", object.into, object.name, object.into.GetOwnerReferences())
		}
		managers := object.into.GetManagedFields()
		if len(managers) != 1 || managers[0].Manager != "peercache-operator" ||
			managers[0].Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("%T %s is not applied by the operator alone: %+v", object.into, object.name, managers)
		}
	}
	if len(b.get().Finalizers) != 0 {
		t.Error("the cluster has a finalizer: it could not be deleted while the operator is away")
	}
}

func TestQuietWhenNothingChanged(t *testing.T) {
	rails := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Transport = v1alpha1.TransportRDMA
		s.Rails = []v1alpha1.Rail{hostRail("a", "g"), sharedRail("b", "h"), sharedRail("c", "h")}
		s.Nodes.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
		s.Nodes.Selector = map[string]string{"a": "b"}
		s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		s.Memory.HugePages = v1alpha1.HugePages2Mi
	}
	odd := func(s *v1alpha1.PeerCacheClusterSpec) { // quantities that are not written as the API server prints them
		s.Memory.Pool = resource.MustParse("1.5Gi")
		s.Resources.MemoryOverhead = resource.MustParse("1024Mi")
		s.Resources.CPU = resource.MustParse("2")
	}
	for name, change := range map[string]func(*v1alpha1.PeerCacheClusterSpec){
		"defaults": func(*v1alpha1.PeerCacheClusterSpec) {}, "rails": rails, "odd quantities": odd,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.cluster(change)
			if first := b.pass(); len(first) < 5 {
				t.Fatalf("the counter misses writes: %q", first)
			}
			for range 2 {
				if again := b.pass(); len(again) != 0 {
					t.Errorf("nothing changed, but the operator wrote %q", again)
				}
			}
		})
	}
}

func TestQuietOnceSettled(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	b.roll("default", true, true)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllNodesReady", "2/2")
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}
}

func TestDriftIsRepaired(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	b.events()

	daemonSet := b.daemonSet("default")
	daemonSet.Spec.Template.Spec.Containers[0].Image = "evil:1"
	b.must(b.Update(t.Context(), daemonSet))
	config := &corev1.ConfigMap{}
	b.read("demo-config", config)
	config.Data["peercached.toml"] = "pool-size = 1"
	b.must(b.Update(t.Context(), config))
	service := &corev1.Service{}
	b.read("demo-discovery", service)
	b.must(b.Delete(t.Context(), service))

	b.pass()
	if image := b.daemonSet("default").Spec.Template.Spec.Containers[0].Image; image != "dataplane:1" {
		t.Errorf("the image is still %s", image)
	}
	b.read("demo-config", config)
	if !strings.Contains(config.Data["peercached.toml"], `pool-size = "1Gi"`) {
		t.Errorf("the configuration is still %q", config.Data)
	}
	b.read("demo-discovery", service)
	recorded := strings.Join(b.events(), "\n")
	if !strings.Contains(recorded, "Repaired") || !strings.Contains(recorded, "containers[peercached].image") {
		t.Errorf("the user is not told: %s", recorded)
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("repairing does not come to an end: %q", again)
	}
}

func TestOthersMayAdd(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	daemonSet := b.daemonSet("default")
	daemonSet.Annotations["example.com/note"] = "mine"
	daemonSet.Spec.Template.Spec.Volumes = append(daemonSet.Spec.Template.Spec.Volumes, corev1.Volume{Name: "extra"})
	b.must(b.Update(t.Context(), daemonSet))
	if wrote := b.pass(); slices.ContainsFunc(wrote, func(w string) bool { return strings.Contains(w, "daemonsets") }) {
		t.Errorf("the operator fights about fields that are not its own: %q", wrote)
	}
	if b.daemonSet("default").Annotations["example.com/note"] != "mine" {
		t.Error("a note of somebody else is lost")
	}
}

func TestFieldsThatAreNoLongerWantedGo(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes.Selector = map[string]string{"a": "1", "b": "2"}
		s.Nodes.PriorityClassName = "high"
	})
	b.pass()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes.Selector = map[string]string{"a": "1"}
		s.Nodes.PriorityClassName = ""
	})
	b.pass()
	pod := b.daemonSet("default").Spec.Template.Spec
	if len(pod.NodeSelector) != 1 || pod.PriorityClassName != "" {
		t.Errorf("selector %v and priority %q are left over", pod.NodeSelector, pod.PriorityClassName)
	}
}

func TestImageAndConfigurationRollTheDaemonSet(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	first := b.daemonSet("default")
	b.count("default", 2, 2, 2)

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	second := b.daemonSet("default")
	if second.Spec.Template.Spec.Containers[0].Image != "dataplane:2" || second.Generation == first.Generation {
		t.Errorf("the image is %s at generation %d", second.Spec.Template.Spec.Containers[0].Image, second.Generation)
	}
	if image := b.get().Status.Image; image != "dataplane:2" {
		t.Errorf("status.image is %s", image)
	}
	b.condition("Progressing", metav1.ConditionTrue, "WaitingForController", "")
	b.condition("Ready", metav1.ConditionFalse, "WaitingForController", "")

	b.count("default", 2, 1, 2)
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.LeaseMilliseconds = 2000 })
	b.pass()
	third := b.daemonSet("default")
	if third.Spec.Template.Annotations[v1alpha1.AnnotationConfigHash] ==
		second.Spec.Template.Annotations[v1alpha1.AnnotationConfigHash] {
		t.Error("a changed configuration does not restart the nodes")
	}
	b.count("default", 2, 1, 2)
	b.pass()
	b.condition("Ready", metav1.ConditionFalse, "RollingOut", "1 of 2")
	b.count("default", 2, 2, 2)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllNodesReady", "2/2")
	b.condition("Progressing", metav1.ConditionFalse, "Settled", "")
}

func TestGroupsThatAreGoneArePruned(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Rails = []v1alpha1.Rail{sharedRail("a", "one"), sharedRail("b", "two")}
	})
	b.pass()
	b.count("one", 2, 2, 2)
	b.count("two", 2, 2, 1)
	stranger := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "demo-stranger",
			Labels: map[string]string{v1alpha1.LabelCluster: "demo"}},
		Spec: *b.daemonSet("one").Spec.DeepCopy(),
	}
	b.must(b.Create(t.Context(), stranger))
	b.pass()
	status := b.get().Status
	if len(status.Groups) != 2 || status.Groups[1] != (v1alpha1.GroupStatus{Name: "two", Desired: 2, Ready: 1}) ||
		status.Nodes != "3/4" || status.DesiredNodes != 4 || status.ReadyNodes != 3 {
		t.Errorf("status is %+v", status)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails = s.Rails[:1] })
	b.events()
	b.pass()
	err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "demo-two"}, &appsv1.DaemonSet{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("DaemonSet demo-two is still there: %v", err)
	}
	b.daemonSet("one")
	b.read("demo-stranger", stranger)
	if status := b.get().Status; len(status.Groups) != 1 || status.Nodes != "2/2" {
		t.Errorf("status still counts the group: %+v", status)
	}
	if recorded := strings.Join(b.events(), "\n"); !strings.Contains(recorded, "GroupRemoved") {
		t.Errorf("the user is not told: %s", recorded)
	}
}

func TestDeletedClusterIsLeftAlone(t *testing.T) {
	b := newBench(t)
	cluster := b.cluster()
	b.pass()
	b.must(b.Delete(t.Context(), cluster))
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("the cluster is gone, but the operator wrote %q", wrote)
	}
}

func TestClusterBeingDeletedIsLeftAlone(t *testing.T) {
	b := newBench(t)
	cluster := b.cluster()
	b.pass()
	b.must(b.Delete(t.Context(), cluster, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	daemonSet := b.daemonSet("default")
	b.must(b.Delete(t.Context(), daemonSet))
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("the garbage collector deletes, and the operator wrote %q", wrote)
	}
}
