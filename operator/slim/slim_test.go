// SPDX-License-Identifier: Apache-2.0

package slim_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/operator/discovery"
	"github.com/peercache/peercache/operator/podtest"
	"github.com/peercache/peercache/operator/slim"
)

// The packages status and discovery test the decisions from slim pods.
func TestPodKeepsItsOwner(t *testing.T) {
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "demo-default", UID: "u"}}
	pod := podtest.Pod("a", podtest.Hosting, func(pod *corev1.Pod) {
		pod.UID, pod.ResourceVersion = "p", "7"
		pod.OwnerReferences = []metav1.OwnerReference{
			{Name: "other"}, *metav1.NewControllerRef(daemonSet, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
		pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": "long"}
		pod.Spec.Containers = []corev1.Container{{Name: "peercached", Image: "dataplane:1", Args: []string{"--config"}}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "config"}}
	})
	small := podtest.Cached(t, pod)[0]
	if !metav1.IsControlledBy(&small, daemonSet) || small.Name != "a" || small.Namespace != pod.Namespace || small.UID != "p" ||
		small.ResourceVersion != "7" || !discovery.IsHost(&small) {
		t.Errorf("of %+v is left %+v", pod.ObjectMeta, small.ObjectMeta)
	}
	if kept := small.Spec.Containers; len(kept) != 1 || kept[0].Image != "dataplane:1" || len(kept[0].Args) != 0 {
		t.Errorf("an update in place compares the images of %+v", kept)
	}
	if len(small.Spec.Volumes)+len(small.Annotations)+len(small.Status.ContainerStatuses) != 0 {
		t.Errorf("the cache keeps what nobody looks at: %+v", small)
	}
	if other := (&corev1.ConfigMap{}); func() any { object, _ := slim.Pod(other); return object }() != any(other) {
		t.Error("what is no pod, such as the mark of a deleted one, is changed")
	}
}

func TestMachineKeepsPeerCachesDriver(t *testing.T) {
	machine := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"x": "y"}}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: "ebs.csi.aws.com", NodeID: "i-1"}, {Name: "csi.peercache.io", NodeID: "a"}}}}
	kept, err := slim.CSINode(machine)
	want := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.CSINodeSpec{Drivers: machine.Spec.Drivers[1:]}}
	if err != nil || !equality.Semantic.DeepEqual(kept, want) {
		t.Errorf("%+v, %v, want %+v", kept, err, want)
	}
	if other := (&corev1.ConfigMap{}); func() any { object, _ := slim.CSINode(other); return object }() != any(other) {
		t.Error("another object has changed")
	}
}

func TestCachedMachineIsSlim(t *testing.T) {
	machine := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "t"}}, ProviderID: "x"},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"rdma/a": resource.MustParse("1")}, Images: []corev1.ContainerImage{{SizeBytes: 1}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}},
			NodeInfo:   corev1.NodeSystemInfo{KernelVersion: "6.1.0", BootID: "b"},
		},
	}
	object, err := slim.Machine(machine)
	small, ok := object.(*corev1.Node)
	if err != nil || !ok {
		t.Fatalf("the cache makes %T of a machine (error %v)", object, err)
	}
	if small.Name != "m" || small.Labels["a"] != "b" || len(small.Spec.Taints) != 1 || len(small.Status.Allocatable) != 1 ||
		small.Status.NodeInfo.KernelVersion != "6.1.0" {
		t.Errorf("preflight lacks something: %+v", small)
	}
	if len(small.Status.Images)+len(small.Status.Conditions)+len(small.Spec.ProviderID)+len(small.Status.NodeInfo.BootID) != 0 {
		t.Errorf("the cache keeps what nobody looks at: %+v", small)
	}
}
