// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// revise acts as the DaemonSet controller: it numbers the present template of group default.
func (b *bench) revise(number int64) (hash string) {
	b.Helper()
	daemonSet := b.daemonSet("default")
	hash = "hash" + strconv.FormatInt(number, 10)
	labels := map[string]string{appsv1.ControllerRevisionHashLabelKey: hash}
	maps.Copy(labels, daemonSet.Spec.Selector.MatchLabels)
	b.must(b.Create(b.Context(), &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: daemonSet.Name + "-" + hash, Labels: labels, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(daemonSet, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}},
		Data: runtime.RawExtension{Raw: []byte("{}")}, Revision: number,
	}))
	return hash
}

// startNumbered starts three pods of group default, of the template's first revision.
func (b *bench) startNumbered() {
	b.Helper()
	revision := b.revise(1)
	for _, pod := range b.startPods("default", true, true, true) {
		pod.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
		b.must(b.Update(b.Context(), &pod))
	}
}

// newInPlace has three pods of image dataplane:1, which are updated in place.
func newInPlace(t *testing.T) *bench {
	t.Helper()
	b := newRestricted(t, "nodes", "pods", "tokens")
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Image, s.Update.Strategy = "dataplane:1", v1alpha1.UpdateInPlace
	})
	b.pass()
	b.startNumbered()
	return b
}

// nextImage has the DaemonSet controller number the template of another image, which no pod has.
func (b *bench) nextImage(image string, number int64) (hash string) {
	b.Helper()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = image })
	b.pass()
	hash = b.revise(number)
	b.setCounts("default", 3, 0, 3)
	b.pass()
	return hash
}

func (b *bench) pod(letter string) *corev1.Pod {
	b.Helper()
	pod := &corev1.Pod{}
	b.read("demo-default-"+letter, pod)
	return pod
}

// restart acts as a kubelet that has restarted the pod's container.
func (b *bench) restart(letter string) {
	b.Helper()
	pod := b.pod(letter)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: plan.ContainerName, Image: pod.Spec.Containers[0].Image, RestartCount: 1, Ready: true}}
	b.must(b.Status().Update(b.Context(), pod))
}

// images are those of the pods a, b and c.
func (b *bench) images() (list []string) {
	b.Helper()
	for _, letter := range []string{"a", "b", "c"} {
		pod := b.pod(letter)
		list = append(list, pod.Spec.Containers[0].Image)
		if init := pod.Spec.InitContainers[0].Image; init != pod.Spec.Containers[0].Image {
			b.Errorf("pod %s has images %s and %s", letter, init, pod.Spec.Containers[0].Image)
		}
	}
	return list
}

func TestImagesAreUpdatedInPlace(t *testing.T) {
	b := newInPlace(t)
	b.pass()
	if got := b.daemonSet("default").Spec.UpdateStrategy.Type; got != appsv1.OnDeleteDaemonSetStrategyType {
		t.Errorf("the strategy is %s", got)
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("with nothing to update a pass writes %q", again)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	if got := b.images(); !slices.Equal(got, []string{"dataplane:1", "dataplane:1", "dataplane:1"}) {
		t.Fatalf("before the controller has numbered the template the images are %q", got)
	}
	current := b.revise(2)
	b.setCounts("default", 3, 0, 3)
	b.pass()
	if got := b.images(); !slices.Equal(got, []string{"dataplane:2", "dataplane:1", "dataplane:1"}) {
		t.Fatalf("the first is to be updated, the images are %q", got)
	}
	if pod := b.pod("a"); pod.Labels[appsv1.ControllerRevisionHashLabelKey] != current || !strings.HasPrefix(pod.Labels[v1alpha1.LabelRestarting], "0.") {
		t.Errorf("the labels are %v", pod.Labels)
	}
	b.setCounts("default", 3, 1, 3)
	b.pass()
	if got := b.images(); got[1] != "dataplane:1" {
		t.Fatalf("the second is updated before the first has restarted: %q", got)
	}
	b.condition("Progressing", metav1.ConditionTrue, "RollingOut", "1 of 3")
	b.restart("a")
	b.pass()
	if got := b.images(); !slices.Equal(got, []string{"dataplane:2", "dataplane:2", "dataplane:1"}) {
		t.Fatalf("the second is to be updated, the images are %q", got)
	}
	if _, ok := b.pod("a").Labels[v1alpha1.LabelRestarting]; ok {
		t.Error("the first still counts as restarting")
	}
	b.restart("b")
	b.setCounts("default", 3, 2, 3)
	b.pass()
	b.restart("c")
	b.setCounts("default", 3, 3, 3)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "3/3")
	b.pass()
	if again := b.pass(); len(again) != 0 {
		t.Errorf("after the update a pass writes %q", again)
	}
}

// TestARestartByHandRestartsNothing: `kubectl rollout restart` makes a revision of the same images. It stops no later update.
func TestARestartByHandRestartsNothing(t *testing.T) {
	b := newInPlace(t)
	b.pass()

	daemonSet := b.daemonSet("default")
	daemonSet.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "2026-11-29T12:00:00Z"
	b.must(b.Update(b.Context(), daemonSet))
	restarted := b.revise(2)
	b.setCounts("default", 3, 0, 3)
	b.pass()
	for _, letter := range []string{"a", "b", "c"} {
		pod := b.pod(letter)
		if _, waits := pod.Labels[v1alpha1.LabelRestarting]; waits || pod.Labels[appsv1.ControllerRevisionHashLabelKey] != restarted {
			t.Errorf("the labels of pod %s are %v", letter, pod.Labels)
		}
	}
	b.setCounts("default", 3, 3, 3)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "3/3")
	b.pass()
	if again := b.pass(); len(again) != 0 {
		t.Errorf("after it a pass writes %q", again)
	}

	b.nextImage("dataplane:2", 3)
	if got := b.images(); !slices.Equal(got, []string{"dataplane:2", "dataplane:1", "dataplane:1"}) {
		t.Errorf("a later image is given to %q", got)
	}
}

// TestImagesOfAMirrorNeedNewPods: a webhook that rewrites the images of new pods does not see a patch, which would have
// machines without a way out pull from elsewhere.
func TestImagesOfAMirrorNeedNewPods(t *testing.T) {
	b := newInPlace(t)
	pod := b.pod("b")
	pod.Spec.InitContainers[0].Image, pod.Spec.Containers[0].Image = "mirror.example.com/dataplane:1", "mirror.example.com/dataplane:1"
	b.must(b.Update(b.Context(), pod))
	b.pass()
	if got := b.daemonSet("default").Spec.UpdateStrategy.Type; got != appsv1.OnDeleteDaemonSetStrategyType {
		t.Fatalf("without an update the strategy is %s", got)
	}
	b.nextImage("dataplane:2", 2)
	b.pass()
	if got := b.images(); !slices.Equal(got, []string{"dataplane:1", "mirror.example.com/dataplane:1", "dataplane:1"}) {
		t.Errorf("pods got images by a patch: %q", got)
	}
	if got := b.daemonSet("default").Spec.UpdateStrategy.Type; got != appsv1.RollingUpdateDaemonSetStrategyType {
		t.Errorf("nothing replaces them: the strategy is %s", got)
	}
}

// TestImagesInPlaceWaitForTheHitRatio: while the roll is paused no pod gets its image, and one that has restarted is done with.
func TestImagesInPlaceWaitForTheHitRatio(t *testing.T) {
	b := newRestricted(t, "nodes", "pods", "tokens")
	setHits := b.hits()
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Image, s.Update = "dataplane:1", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateInPlace, MaxHitRatioDrop: new(int32(20))}
	})
	b.pass()
	b.startNumbered()
	b.pass()
	setHits(90)

	b.nextImage("dataplane:2", 2)
	first := []string{"dataplane:2", "dataplane:1", "dataplane:1"}
	if got := b.images(); !slices.Equal(got, first) {
		t.Fatalf("the first is to be updated, the images are %q", got)
	}
	b.setCounts("default", 3, 1, 3)
	setHits(60)
	b.condition("Progressing", metav1.ConditionTrue, "Paused", "")
	b.restart("a")
	for range 3 {
		b.pass()
	}
	if got := b.images(); !slices.Equal(got, first) {
		t.Errorf("while the roll is paused the images are %q", got)
	}
	if _, ok := b.pod("a").Labels[v1alpha1.LabelRestarting]; ok {
		t.Error("the first still counts as restarting")
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("a pause writes %q", again)
	}

	setHits(89)
	b.pass()
	if got := b.images(); !slices.Equal(got, []string{"dataplane:2", "dataplane:2", "dataplane:1"}) {
		t.Errorf("with the hit ratio back the images are %q", got)
	}
}

// updatesInPlace has two members, both of which may be away at once during an update.
func updatesInPlace(t *testing.T) (*bench, []corev1.Pod) {
	t.Helper()
	b := newRestricted(t, "nodes", "pods", "tokens")
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Update = v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateInPlace, MaxUnavailable: new(intstr.FromInt32(2))}
	})
	b.pass()
	pods := b.startPods("default", true, true)
	b.pass()
	return b, pods
}

// TestOtherChangesNeedNewPods changes the configuration: the DaemonSet controller replaces the pods, and is stopped again.
func TestOtherChangesNeedNewPods(t *testing.T) {
	b, pods := updatesInPlace(t)
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.LeaseMilliseconds = 2000 })
	b.pass()
	b.setCounts("default", 2, 0, 2)
	b.pass()
	if got := b.daemonSet("default").Spec.UpdateStrategy; got.RollingUpdate == nil || got.RollingUpdate.MaxUnavailable.IntValue() != 2 {
		t.Fatalf("the strategy is %+v", got)
	}
	for i := range pods {
		b.must(b.Delete(b.Context(), &pods[i]))
	}
	b.startPods("default", true, true)
	b.pass()
	if got := b.daemonSet("default").Spec.UpdateStrategy.Type; got != appsv1.OnDeleteDaemonSetStrategyType {
		t.Errorf("with new pods the strategy is %s", got)
	}
}

// TestResize: another size of the pool needs new pods, which come within the budget. The operator takes none away.
func TestResize(t *testing.T) {
	b, pods := updatesInPlace(t)
	before := b.daemonSet("default").Spec.Template.Spec.Containers[0].Resources.Requests.Memory()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.Pool = resource.MustParse("3Gi") })
	b.pass()
	b.setCounts("default", 2, 0, 2) // the controller has seen it, and waits for the strategy
	b.pass()
	resized := b.daemonSet("default")
	after := resized.Spec.Template.Spec.Containers[0].Resources.Requests.Memory()
	if grown := after.Value() - before.Value(); grown < 2<<30 {
		t.Errorf("the members request %s, and before %s", after, before)
	}
	if rolling := resized.Spec.UpdateStrategy.RollingUpdate; rolling == nil || rolling.MaxUnavailable.IntValue() != 2 {
		t.Errorf("the strategy is %+v", resized.Spec.UpdateStrategy)
	}
	for i := range pods {
		b.read(pods[i].Name, &pods[i])
		if !pods[i].DeletionTimestamp.IsZero() {
			t.Errorf("pod %s is deleted", pods[i].Name)
		}
	}
	b.setCounts("default", 2, 0, 2)
	b.pass()
	b.condition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, "RollingOut", "")
}
