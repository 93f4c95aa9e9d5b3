// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/injecttest"
	"github.com/peercache/peercache/operator/inject/names"
)

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func testCluster(namespace string, change ...func(*v1alpha1.PeerCacheCluster)) *v1alpha1.PeerCacheCluster {
	cluster := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kv"}}
	for _, f := range change {
		f(cluster)
	}
	return cluster
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func csiCluster() *v1alpha1.PeerCacheCluster {
	return testCluster("serving", func(c *v1alpha1.PeerCacheCluster) { c.Spec.Injection.Socket = v1alpha1.SocketCSI })
}

func onlyPurpose(purpose string) func(*v1alpha1.PeerCacheCluster) {
	return func(c *v1alpha1.PeerCacheCluster) {
		c.Spec.Injection.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"purpose": purpose}}
	}
}

const enginePod = `{
  "apiVersion": "v1", "kind": "Pod",
  "metadata": {"generateName": "engine-", "labels": {"peercache.io/inject": "kv"}},
  "spec": {"containers": [{"name": "main", "image": "sglang", "fromTheFuture": {"a": 1},
    "args": ["python3", "-m", "sglang.launch_server", "--model-path", "x"]}]}
}`

// podOfOtherNamespace names a cluster of another namespace.
var podOfOtherNamespace = strings.Replace(enginePod, `"labels"`, `"annotations": {"peercache.io/cluster-namespace": "elsewhere"}, "labels"`, 1)

func servesAll(c *v1alpha1.PeerCacheCluster) {
	c.Spec.Injection.NamespaceSelector = &metav1.LabelSelector{}
}

func TestHandle(t *testing.T) {
	notReachable := errors.New("connection refused")
	cases := map[string]struct {
		pod      string
		cached   []client.Object
		live     []client.Object
		err      error
		dryRun   bool
		watched  []string
		injected bool
		warning  string // a part of the warning
		event    bool
	}{
		"injected": {pod: enginePod, cached: []client.Object{testCluster("serving")}, injected: true},
		"cluster is not in the cache yet": {
			pod: enginePod, live: []client.Object{testCluster("serving")}, injected: true,
		},
		"no such cluster": {
			pod: enginePod, cached: []client.Object{testCluster("elsewhere")},
			warning: "PeerCacheCluster serving/kv does not exist",
		},
		"cluster in the namespace of the annotation": {
			pod:    podOfOtherNamespace,
			cached: []client.Object{testCluster("elsewhere", servesAll)}, injected: true,
		},
		"cluster of another namespace, which serves its own only": {
			pod: podOfOtherNamespace, event: true, cached: []client.Object{testCluster("elsewhere")},
			warning: "in serving: write spec.injection.namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: serving}}",
		},
		"client image of a cluster elsewhere": {
			pod: podOfOtherNamespace, injected: true,
			warning: "not those of PeerCacheCluster elsewhere/kv (spec.injection.client.image)",
			cached: []client.Object{testCluster("elsewhere", servesAll, func(c *v1alpha1.PeerCacheCluster) {
				c.Spec.Injection.Client.Image = "author/client:1"
			})},
		},
		"own namespace, whatever is selected": {
			pod: enginePod, injected: true, cached: []client.Object{testCluster("serving", onlyPurpose("inference"))},
		},
		"empty label": {
			pod: strings.Replace(enginePod, `"kv"`, `""`, 1), warning: "label peercache.io/inject is empty",
		},
		"API server does not answer": {
			pod: enginePod, err: notReachable, warning: "reading PeerCacheCluster serving/kv failed: connection refused",
		},
		"cluster is being deleted": {
			pod: enginePod, warning: "is being deleted", event: true,
			cached: []client.Object{testCluster("serving", func(c *v1alpha1.PeerCacheCluster) {
				c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"test"}
			})},
		},
		"namespace is selected": {
			pod: podOfOtherNamespace, injected: true,
			cached: []client.Object{testCluster("elsewhere", onlyPurpose("inference"))},
			live:   []client.Object{namespace("serving", map[string]string{"purpose": "inference"})},
		},
		"namespace is not selected": {
			pod: podOfOtherNamespace, warning: "serves only namespaces with the labels purpose=inference", event: true,
			cached: []client.Object{testCluster("elsewhere", onlyPurpose("inference"))},
			live:   []client.Object{namespace("serving", map[string]string{"purpose": "training"})},
		},
		"namespace cannot be read": {
			pod: podOfOtherNamespace, warning: "reading namespace serving failed", event: true,
			cached: []client.Object{testCluster("elsewhere", onlyPurpose("inference"))},
		},
		"namespace selector is not valid": {
			pod: podOfOtherNamespace, warning: "namespaceSelector of PeerCacheCluster elsewhere/kv is not valid", event: true,
			cached: []client.Object{testCluster("elsewhere", func(c *v1alpha1.PeerCacheCluster) {
				c.Spec.Injection.NamespaceSelector = &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}},
				}
			})},
		},
		"CSI driver is installed": {
			pod: enginePod, injected: true, cached: []client.Object{
				csiCluster(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.peercache.io"}},
			},
		},
		"cluster in a namespace that the operator does not watch": {
			pod: podOfOtherNamespace, watched: []string{"serving", "other"}, cached: []client.Object{testCluster("elsewhere", servesAll)},
			warning: "elsewhere/kv is in a namespace that the operator does not watch (it watches serving, other): add the namespace to watchNamespaces",
		},
		"an operator that may not look for the CSI driver": {
			pod: enginePod, watched: []string{"serving"}, injected: true, cached: []client.Object{csiCluster()},
		},
		"CSI driver is missing": {
			pod: enginePod, warning: "by the CSI driver csi.peercache.io", event: true, cached: []client.Object{csiCluster()},
		},
		"not an SGLang pod": {
			pod: strings.Replace(enginePod, "sglang.launch_server", "http.server", 1), warning: "no container starts SGLang",
			cached: []client.Object{testCluster("serving")}, event: true,
		},
		"a dry run leaves no event": {
			pod: strings.Replace(enginePod, "sglang.launch_server", "http.server", 1), warning: "no container starts SGLang",
			cached: []client.Object{testCluster("serving")}, dryRun: true,
		},
		"not a pod": {pod: `{"kind": "Pod", "apiVersion": "v1", "spec": 7}`, warning: "decoding it"},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		test := cases[name]
		t.Run(name, func(t *testing.T) {
			scheme := testScheme(t)
			reader := func(objects []client.Object) client.Reader {
				return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
					WithInterceptorFuncs(interceptor.Funcs{Get: func(
						ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
					) error {
						if test.err != nil {
							return test.err
						}
						return c.Get(ctx, key, o, opts...)
					}}).Build()
			}
			recorder := events.NewFakeRecorder(1)
			h := &handler{
				options: Options{ClientImage: "client:test", Namespaces: test.watched},
				cached:  reader(test.cached), live: reader(test.live),
				events: recorder,
			}
			response := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				UID: "1", Namespace: "serving", Operation: admissionv1.Create, DryRun: new(test.dryRun),
				Object: runtime.RawExtension{Raw: []byte(test.pod)},
			}})

			if !response.Allowed {
				t.Fatalf("the pod was refused: %+v", response.Result)
			}
			if got := strings.Join(response.Warnings, "\n"); (test.warning == "") != (got == "") || !strings.Contains(got, test.warning) {
				t.Errorf("warnings %q, want %q in them", got, test.warning)
			}
			select {
			case event := <-recorder.Events:
				if !test.event || !strings.Contains(event, "PodNotConnected") || !strings.Contains(event, test.warning) {
					t.Errorf("event %q", event)
				}
			default:
				if test.event {
					t.Error("no event")
				}
			}
			if test.warning == "" || !strings.Contains(test.warning, "decoding") {
				checkPatched(t, test.pod, response, test.injected)
			}
		})
	}
}

// checkPatched applies the patch to what the API server has, and looks at the result.
func checkPatched(t *testing.T, raw string, response admission.Response, injected bool) {
	t.Helper()
	operations, err := json.Marshal(response.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply([]byte(raw))
	if err != nil {
		t.Fatalf("applying %s: %v", operations, err)
	}
	if strings.Contains(raw, "fromTheFuture") && !strings.Contains(string(patched), `"fromTheFuture":{"a":1}`) {
		t.Errorf("a field that this version does not know was lost: %s", patched)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(patched, pod); err != nil {
		t.Fatal(err)
	}
	if got := pod.Annotations[names.AnnotationInjected] == "kv"; got != injected {
		t.Errorf("injected: %v, want %v: %s", got, injected, patched)
	}
	if !injected && pod.Annotations[names.AnnotationSkipReason] == "" {
		t.Errorf("no reason on the pod: %s", patched)
	}
	for _, operation := range response.Patches {
		if operation.Operation != "add" {
			t.Errorf("the patch does more than add: %s", operation.Json())
		}
	}
}

// TestPlansOnlyTheGroupOfThePod checks that an admission plans one group. A cluster may have many, and an admission must be
// fast.
func TestPlansOnlyTheGroupOfThePod(t *testing.T) {
	for name, test := range map[string]struct {
		group, skip string
		planned     []string
	}{
		"its own group":          {group: "numa1", planned: []string{"numa1"}},
		"the first by default":   {planned: []string{"numa0"}},
		"none that is not there": {group: "numa7", skip: "numa7"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOfCluster("serving", sidecar, sharedRails)
			var planned []string
			node := facts.Node
			facts.Node = func(group string) NodeFacts {
				planned = append(planned, group)
				return node(group)
			}
			pod := injecttest.ReadPod(t, "testdata/sidecar.out.yaml")
			if test.group != "" {
				pod.Annotations = map[string]string{names.AnnotationGroup: test.group}
			}
			result := Inject(pod, facts)
			if !slices.Equal(planned, test.planned) || result.Injected != (test.skip == "") || !strings.Contains(result.SkipReason, test.skip) {
				t.Errorf("planned %q, want %q; injected %t, %s", planned, test.planned, result.Injected, result.SkipReason)
			}
		})
	}
}

func TestFactsFor(t *testing.T) {
	cluster := testCluster("serving", func(c *v1alpha1.PeerCacheCluster) {
		c.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		c.Spec.Injection.Client.ImagePullPolicy = corev1.PullAlways
		c.Spec.Layout = v1alpha1.LayoutPerRail
		c.Spec.Rails = []v1alpha1.Rail{{Name: "rail1"}, {Name: "rail0"}}
	})
	facts := FactsFor(cluster, "serving", Options{ClientImage: "client:default"})
	if facts.ClientImage != "client:default" || facts.ClientPullPolicy != corev1.PullAlways {
		t.Errorf("client: %+v", facts)
	}
	if !slices.Equal(facts.Groups, []string{"rail0", "rail1"}) {
		t.Errorf("groups: %q", facts.Groups)
	}
	if len(facts.PullSecrets) != 1 {
		t.Errorf("pull secrets: %+v", facts.PullSecrets)
	}
	if other := FactsFor(cluster, "elsewhere", Options{ClientImage: "client:default"}); len(other.PullSecrets) != 0 {
		t.Errorf("pull secrets of another namespace: %+v", other.PullSecrets)
	}
	cluster.Spec.Injection.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mirror"}, {Name: "registry"}}
	for namespace, want := range map[string]string{"serving": "[{registry} {mirror}]", "elsewhere": "[{mirror} {registry}]"} {
		if got := fmt.Sprint(FactsFor(cluster, namespace, Options{}).PullSecrets); got != want {
			t.Errorf("pull secrets in %s: %s, want %s", namespace, got, want)
		}
	}
	cluster.Spec.Injection.Client.Image = "client:own"
	for namespace, want := range map[string]string{"serving": "client:own", "elsewhere": "client:default"} {
		if facts := FactsFor(cluster, namespace, Options{ClientImage: "client:default"}); facts.ClientImage != want {
			t.Errorf("client image in %s: %s, want %s", namespace, facts.ClientImage, want)
		}
	}
}
