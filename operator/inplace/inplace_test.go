// SPDX-License-Identifier: Apache-2.0

package inplace_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inplace"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/podtest"
)

func daemonSet(desired int32) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: desired}}
	set.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelPodShape: "shape"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "socket-directory", Image: "dataplane:2", Command: []string{"mkdir"}}},
			Containers:     []corev1.Container{{Name: "peercached", Image: "dataplane:2", Args: []string{"--config"}}},
		},
	}
	set.Spec.Template.Labels[v1alpha1.LabelPodImages] = plan.ImagesDigest(&set.Spec.Template.Spec, &set.Spec.Template.Spec)
	return set
}

// running gives a pod images as the operator wrote them.
func running(image string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "socket-directory", Image: image}}
		pod.Spec.Containers = []corev1.Container{{Name: "peercached", Image: image}, {Name: "proxy-of-a-mesh", Image: "proxy:1"}}
		pod.Labels[v1alpha1.LabelPodImages] = plan.ImagesDigest(&daemonSet(1).Spec.Template.Spec, &pod.Spec)
	}
}

// mirrored is what a webhook does to new pods.
func mirrored(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Image = "mirror.example.com/" + pod.Spec.Containers[i].Image
	}
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[key] = value }
}

func atRevision(revision string) func(*corev1.Pod) {
	return labelled(appsv1.ControllerRevisionHashLabelKey, revision)
}

func patched(before string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		atRevision("new")(pod)
		running("dataplane:2")(pod)
		labelled(v1alpha1.LabelRestarting, before)(pod)
	}
}

func restarted(times int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].RestartCount = times }
}

func names(pods []*corev1.Pod) []string {
	list := []string{}
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	return list
}

func TestNext(t *testing.T) {
	former, unready, images := atRevision("old"), podtest.UnreadyFor(0), running("dataplane:2")
	type pods [][]func(*corev1.Pod)
	for _, c := range []struct {
		name                    string
		desired                 int32
		away                    int
		pods                    pods
		patch, finish, renumber []string
	}{
		{"all are current", 2, 1, pods{{atRevision("new")}, {atRevision("new")}}, nil, nil, nil},
		{"one at a time", 3, 1, pods{{former}, {former}, {former}}, []string{"p0"}, nil, nil},
		{"two at a time", 3, 2, pods{{former}, {former}, {former}}, []string{"p0", "p1"}, nil, nil},
		{"it has not restarted yet", 2, 1, pods{{patched("0.0")}, {former}}, nil, nil, nil},
		{"it restarts", 2, 1, pods{{patched("0.0"), restarted(1), unready}, {former}}, nil, nil, nil},
		{"it is back", 2, 1, pods{{patched("0.0"), restarted(1)}, {former}}, []string{"p1"}, []string{"p0"}, nil},
		{"it had restarted before", 2, 1, pods{{patched("3.0"), restarted(3)}, {former}}, nil, nil, nil},
		{"it is patched once more", 1, 1, pods{{patched("0.0"), former, running("dataplane:1"), restarted(1)}}, nil, nil, nil},
		{"a current one is not ready", 2, 1, pods{{atRevision("new"), unready}, {former}}, nil, nil, nil},
		{"one that does not serve comes first", 3, 1, pods{{former}, {former, unready}, {former}}, []string{"p1"}, nil, nil},
		{"all that do not serve", 3, 1, pods{{former}, {former, unready}, {former, unready}}, []string{"p1", "p2"}, nil, nil},
		{"one is being created", 2, 1, pods{{former}}, nil, nil, nil},
		{"one is being deleted", 2, 1, pods{{former, podtest.Terminating}, {former}}, nil, nil, nil},
		{"a count that is no number", 2, 1, pods{{patched("x")}, {former}}, []string{"p1"}, []string{"p0"}, nil},
		{"another shape", 2, 1, pods{{former}, {former, labelled(v1alpha1.LabelPodShape, "other")}}, nil, nil, nil},
		{"another number of the same images", 3, 1, pods{{former, images}, {former, images}, {former, images, unready}}, nil, nil, []string{"p0", "p1", "p2"}},
		{"another number while others restart", 2, 1, pods{{patched("0.0")}, {former, images}}, nil, nil, []string{"p1"}},
		{"another number of what restarts", 2, 1, pods{{patched("0.0"), former}, {former}}, nil, nil, []string{"p0"}},
		{"another number of what runs from a mirror", 1, 1, pods{{former, images, mirrored}}, nil, nil, []string{"p0"}},
		{"a mirror's images", 2, 2, pods{{former}, {former, mirrored}}, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []corev1.Pod
			for i, changes := range c.pods {
				changes = append([]func(*corev1.Pod){labelled(v1alpha1.LabelPodShape, "shape"), running("dataplane:1")}, changes...)
				all = append(all, podtest.Pod(fmt.Sprintf("p%d", i), changes...))
			}
			all = podtest.Cached(t, all...)
			var pods []*corev1.Pod
			for i := range all {
				pods = append(pods, &all[i])
			}
			steps := inplace.Next(daemonSet(c.desired), "new", pods, c.away)
			if got := names(steps.Patch); !slices.Equal(got, c.patch) && len(got)+len(c.patch) > 0 {
				t.Errorf("patches %q, want %q", got, c.patch)
			}
			if got := names(steps.Finish); !slices.Equal(got, c.finish) && len(got)+len(c.finish) > 0 {
				t.Errorf("finishes %q, want %q", got, c.finish)
			}
			if got := names(steps.Renumber); !slices.Equal(got, c.renumber) && len(got)+len(c.renumber) > 0 {
				t.Errorf("renumbers %q, want %q", got, c.renumber)
			}
		})
	}
}

func TestPatchHasImagesAlone(t *testing.T) {
	pod := podtest.Pod("a", running("dataplane:1"), restarted(2))
	pod.UID = "u"
	template := daemonSet(1).Spec.Template
	got, err := json.Marshal(inplace.Patch(&pod, &template, "new", podtest.Noon))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"labels":{"controller-revision-hash":"new","peercache.io/pod-images":"` + template.Labels[v1alpha1.LabelPodImages] +
		`","peercache.io/restarting":"2.1748779200"},"uid":"u"},` +
		`"spec":{"containers":[{"image":"dataplane:2","name":"peercached"}],"initContainers":[{"image":"dataplane:2","name":"socket-directory"}]}}`
	if string(got) != want {
		t.Errorf("the patch is\n%s, want\n%s", got, want)
	}
}

// TestAnInitContainerThatHasRunRestartsNothing: nobody waits for a restart that the kubelet does not do.
func TestAnInitContainerThatHasRunRestartsNothing(t *testing.T) {
	for _, c := range []struct {
		name     string
		policy   *corev1.ContainerRestartPolicy
		restarts bool
	}{
		{"it has run", nil, false},
		{"a sidecar", new(corev1.ContainerRestartPolicyAlways), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			template := daemonSet(1).Spec.Template
			template.Spec.InitContainers[0].RestartPolicy = c.policy
			pod := podtest.Pod("a", running("dataplane:2"))
			pod.Spec.InitContainers[0].Image = "busybox:1"
			labels := inplace.Patch(&pod, &template, "new", podtest.Noon)["metadata"].(map[string]any)["labels"].(map[string]string)
			if _, waits := labels[v1alpha1.LabelRestarting]; waits != c.restarts {
				t.Errorf("the labels are %v", labels)
			}
		})
	}
}

func TestAwaited(t *testing.T) {
	pod := podtest.Pod("a", patched("2.1748779200"), restarted(2))
	if got := inplace.Awaited(&pod); !got.Equal(podtest.Noon) {
		t.Errorf("its restart is awaited since %s", got)
	}
	for name, other := range map[string]corev1.Pod{
		"it has restarted":         podtest.Pod("a", patched("2.1748779200"), restarted(3)),
		"it was not patched":       podtest.Pod("a", restarted(2)),
		"a label without a number": podtest.Pod("a", patched("x")),
	} {
		if got := inplace.Awaited(&other); !got.IsZero() {
			t.Errorf("%s: its restart is awaited since %s", name, got)
		}
	}
}
