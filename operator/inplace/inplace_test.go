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
	return set
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
	former, unready := atRevision("old"), podtest.UnreadyFor(0)
	type pods [][]func(*corev1.Pod)
	for _, c := range []struct {
		name          string
		desired       int32
		away          int
		pods          pods
		patch, finish []string
	}{
		{"all are current", 2, 1, pods{{atRevision("new")}, {atRevision("new")}}, nil, nil},
		{"one at a time", 3, 1, pods{{former}, {former}, {former}}, []string{"p0"}, nil},
		{"two at a time", 3, 2, pods{{former}, {former}, {former}}, []string{"p0", "p1"}, nil},
		{"it has not restarted yet", 2, 1, pods{{patched("0")}, {former}}, nil, nil},
		{"it restarts", 2, 1, pods{{patched("0"), restarted(1), unready}, {former}}, nil, nil},
		{"it is back", 2, 1, pods{{patched("0"), restarted(1)}, {former}}, []string{"p1"}, []string{"p0"}},
		{"it had restarted before", 2, 1, pods{{patched("3"), restarted(3)}, {former}}, nil, nil},
		{"it is patched once more", 1, 1, pods{{patched("0"), former, restarted(1)}}, nil, nil},
		{"a current one is not ready", 2, 1, pods{{atRevision("new"), unready}, {former}}, nil, nil},
		{"one that does not serve comes first", 3, 1, pods{{former}, {former, unready}, {former}}, []string{"p1"}, nil},
		{"all that do not serve", 3, 1, pods{{former}, {former, unready}, {former, unready}}, []string{"p1", "p2"}, nil},
		{"one is being created", 2, 1, pods{{former}}, nil, nil},
		{"one is being deleted", 2, 1, pods{{former, podtest.Terminating}, {former}}, nil, nil},
		{"a count that is no number", 2, 1, pods{{patched("x")}, {former}}, []string{"p1"}, []string{"p0"}},
		{"another shape", 2, 1, pods{{former}, {former, labelled(v1alpha1.LabelPodShape, "other")}}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []corev1.Pod
			for i, changes := range c.pods {
				changes = append([]func(*corev1.Pod){labelled(v1alpha1.LabelPodShape, "shape")}, changes...)
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
		})
	}
}

func TestPatchHasImagesAlone(t *testing.T) {
	pod := podtest.Pod("a", restarted(2))
	pod.UID = "u"
	got, err := json.Marshal(inplace.Patch(&pod, &daemonSet(1).Spec.Template, "new"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"labels":{"controller-revision-hash":"new","peercache.io/restarting":"2"},"uid":"u"},` +
		`"spec":{"containers":[{"image":"dataplane:2","name":"peercached"}],"initContainers":[{"image":"dataplane:2","name":"socket-directory"}]}}`
	if string(got) != want {
		t.Errorf("the patch is\n%s, want\n%s", got, want)
	}
}
