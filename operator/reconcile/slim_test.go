// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is decided from slim pods is in TestFindFaults and TestChooseHosts.
func TestCachedPodIsSlimAndStillItsOwners(t *testing.T) {
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "demo-default", UID: "u"}}
	pod := testPod("a", hosting, func(pod *corev1.Pod) {
		pod.UID, pod.ResourceVersion = "p", "7"
		pod.OwnerReferences = []metav1.OwnerReference{
			{Name: "other"}, *metav1.NewControllerRef(daemonSet, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
		pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": "long"}
		pod.Spec.Containers = []corev1.Container{{Name: "peercached", Image: "dataplane:1"}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "config"}}
	})
	slim := cached(t, pod)[0]
	if !metav1.IsControlledBy(&slim, daemonSet) || slim.Name != "a" || slim.Namespace != pod.Namespace || slim.UID != "p" ||
		slim.ResourceVersion != "7" || !isHost(&slim) {
		t.Errorf("of %+v is left %+v", pod.ObjectMeta, slim.ObjectMeta)
	}
	if len(slim.Spec.Containers)+len(slim.Spec.Volumes)+len(slim.Annotations)+len(slim.Status.ContainerStatuses) != 0 {
		t.Errorf("the cache keeps what nobody looks at: %+v", slim)
	}
	if other := (&corev1.ConfigMap{}); func() any { object, _ := slimPod(other); return object }() != any(other) {
		t.Error("what is no pod, such as the mark of a deleted one, is changed")
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
	object, err := slimMachine(machine)
	slim, ok := object.(*corev1.Node)
	if err != nil || !ok {
		t.Fatalf("the cache makes %T of a machine (error %v)", object, err)
	}
	if slim.Name != "m" || slim.Labels["a"] != "b" || len(slim.Spec.Taints) != 1 || len(slim.Status.Allocatable) != 1 ||
		slim.Status.NodeInfo.KernelVersion != "6.1.0" {
		t.Errorf("preflight lacks something: %+v", slim)
	}
	if len(slim.Status.Images)+len(slim.Status.Conditions)+len(slim.Spec.ProviderID)+len(slim.Status.NodeInfo.BootID) != 0 {
		t.Errorf("the cache keeps what nobody looks at: %+v", slim)
	}
}
