// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/injecttest"
)

func sglangPod() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "sglang", Args: []string{"python3", "-m", "sglang.launch_server", "--model-path", "x"},
	}}}}
}

// TestUsersOfNamespaces checks the user of an added container: OpenShift refuses a user that is none of the namespace's.
func TestUsersOfNamespaces(t *testing.T) {
	root, other := int64(0), int64(1000)
	for name, test := range map[string]struct {
		users string
		pod   *int64
		want  *int64
	}{
		"nobody chooses one":                   {want: new(NonRootUser)},
		"the pod is root":                      {pod: &root, want: new(NonRootUser)},
		"the pod chooses one":                  {pod: &other, want: nil},
		"the namespace gives one":              {users: "1000680000/10000", want: new(int64(1000680000))},
		"the namespace gives one, as a range":  {users: "1000680000-1000689999", want: new(int64(1000680000))},
		"the namespace gives one, and the pod": {users: "1000680000/10000", pod: &other, want: nil},
		"the namespace gives no number":        {users: "x", want: new(NonRootUser)},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOfCluster("serving", injecttest.ByDriver)
			facts.Admission.Namespace.Annotations = map[string]string{Users: test.users}
			pod := sglangPod()
			if test.pod != nil {
				pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: test.pod}
			}
			result := Inject(pod, facts)
			if !result.Injected {
				t.Fatalf("left alone: %s", result.SkipReason)
			}
			got := result.Pod.Spec.InitContainers[0].SecurityContext.RunAsUser
			if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
				t.Errorf("the user is %v, want %v", got, test.want)
			}
		})
	}
}

// TestRestrictedNamespaces checks that a pod is left alone where its namespace would refuse the hostPath of the sockets.
func TestRestrictedNamespaces(t *testing.T) {
	openShift := map[string]string{Users: "1000680000/10000"}
	level := func(l string) map[string]string { return map[string]string{PodSecurityLabel: l} }
	hostPath := corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/models"}}}
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		byDriver            bool
		volumes             []corev1.Volume
		want                string
	}{
		"none":                            {},
		"privileged":                      {labels: level("privileged")},
		"baseline":                        {labels: level("baseline"), want: `has Pod Security "baseline"`},
		"restricted":                      {labels: level("restricted"), want: `has Pod Security "restricted"`},
		"a level that is not known":       {labels: level(""), want: "has Pod Security"},
		"restricted, by the driver":       {labels: level("restricted"), byDriver: true},
		"restricted, and an exempt pod":   {labels: level("restricted"), volumes: []corev1.Volume{hostPath}},
		"OpenShift":                       {annotations: openShift, want: "SecurityContextConstraints of OpenShift"},
		"OpenShift, by the driver":        {annotations: openShift, byDriver: true},
		"OpenShift, and it is privileged": {annotations: openShift, labels: level("privileged")},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOfCluster("serving")
			if test.byDriver {
				facts = factsOfCluster("serving", injecttest.ByDriver)
			}
			facts.Admission.Namespace = metav1.ObjectMeta{Labels: test.labels, Annotations: test.annotations}
			pod := sglangPod()
			pod.Spec.Volumes = test.volumes
			result := Inject(pod, facts)
			if result.Injected != (test.want == "") || !strings.Contains(result.SkipReason, test.want) {
				t.Errorf("injected %v, reason %q, want %q", result.Injected, result.SkipReason, test.want)
			}
		})
	}
}

// faultyReader panics with a text of its own: in what a run prints, a runtime error counts as a sanitizer's report.
type faultyReader struct{ client.Reader }

func (faultyReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	panic("a fault")
}

// TestAPanicRefusesNoPod checks that a fault of the webhook leaves the pod as it is. The server around a handler refuses the pod.
func TestAPanicRefusesNoPod(t *testing.T) {
	faulty := &handler{options: testOptions, cached: faultyReader{}}
	response := faulty.Handle(t.Context(), engineRequest())
	if !response.Allowed || len(response.Patches) > 0 || len(response.Warnings) != 1 {
		t.Errorf("the answer is %+v", response)
	}
}

// TestAnAdmissionAsksNotTheAPIServer checks that an admission needs the cache alone, however many pods there are.
func TestAnAdmissionAsksNotTheAPIServer(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.PeerCacheClusterSpec){"node": func(*v1alpha1.PeerCacheClusterSpec) {}, "sidecar": sidecar} {
		h := &handler{options: testOptions, cached: copyingReader{clusterWith("serving", change)}} // to ask would be a panic
		if response := h.Handle(t.Context(), engineRequest()); len(response.Patches) == 0 {
			t.Errorf("%s: the answer is %+v", name, response)
		}
	}
}

func engineRequest() admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Namespace: "serving", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(enginePod)},
	}}
}
