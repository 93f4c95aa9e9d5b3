// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/transcript"
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

const enginePod = `{
  "apiVersion": "v1", "kind": "Pod",
  "metadata": {"generateName": "engine-", "labels": {"peercache.io/inject": "kv"}},
  "spec": {"containers": [{"name": "main", "image": "sglang", "fromTheFuture": {"a": 1},
    "args": ["python3", "-m", "sglang.launch_server", "--model-path", "x"]}]}
}`

// pods are those of namespace serving that a script may name.
var pods = map[string]string{
	"engine":           enginePod,
	"engine-elsewhere": strings.Replace(enginePod, `"labels"`, `"annotations": {"peercache.io/cluster-namespace": "elsewhere"}, "labels"`, 1),
	"unlabeled":        strings.Replace(enginePod, `"kv"`, `""`, 1),
	"script":           strings.Replace(enginePod, `"python3", "-m", "sglang.launch_server", "--model-path", "x"`, `"sh", "-c", "sglang serve"`, 1),
	"web":              strings.Replace(enginePod, "sglang.launch_server", "http.server", 1),
	"malformed":        `{"kind": "Pod", "apiVersion": "v1", "spec": 7}`,
}

// selectors are those of namespaces that a script may name.
var selectors = map[string]*metav1.LabelSelector{
	"all":       {},
	"inference": {MatchLabels: map[string]string{"purpose": "inference"}},
	"nonsense":  {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}},
}

// TestHandle plays testdata/webhook.txt. A step is a pod and what there is when it is created:
//
//	cached=N, live=N   a cluster in namespace N, in the cache or at the API server; behind it, what is special about it:
//	                   serves=SELECTOR, deleted, by-driver (the socket), own-image
//	purpose=P          the label of namespace serving
//	driver=NAME        the CSI driver is installed; a machine's kubelet has registered the driver NAME
//	watched=N,N        the namespaces that the operator watches
//	dry-run, refused   so is the request; the API server refuses connections
func TestHandle(t *testing.T) {
	transcript.Run(t, "testdata/webhook.txt", func(words []string) (string, error) {
		raw, known := pods[words[0]]
		if !known {
			return "", fmt.Errorf("no pod %q", words[0])
		}
		var cached, live []client.Object
		var cluster *v1alpha1.PeerCacheCluster
		var refused error
		options, dryRun := Options{ClientImage: "client:test"}, false
		for _, word := range words[1:] {
			switch name, value, _ := strings.Cut(word, "="); name {
			case "cached":
				cluster = testCluster(value)
				cached = append(cached, cluster)
			case "live":
				cluster = testCluster(value)
				live = append(live, cluster)
			case "serves":
				cluster.Spec.Injection.NamespaceSelector = selectors[value]
			case "deleted":
				cluster.DeletionTimestamp, cluster.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"test"}
			case "by-driver":
				cluster.Spec.Injection.Socket = v1alpha1.SocketCSI
			case "own-image":
				cluster.Spec.Injection.Client.Image = "author/client:1"
			case "purpose":
				live = append(live, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "serving", Labels: map[string]string{name: value}}})
			case "driver":
				cached = append(cached, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.peercache.io"}})
				if value != "" {
					cached = append(cached, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "machine"},
						Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: value, NodeID: "machine"}}}})
				}
			case "watched":
				options.Namespaces = strings.Split(value, ",")
			case "dry-run":
				dryRun = true
			case "refused":
				refused = errors.New("connection refused")
			default:
				return "", fmt.Errorf("%q means nothing here", word)
			}
		}
		reader := func(objects []client.Object) client.Reader {
			return fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).
				WithInterceptorFuncs(interceptor.Funcs{Get: func(
					ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
				) error {
					if refused != nil {
						return refused
					}
					return c.Get(ctx, key, o, opts...)
				}}).Build()
		}
		h := &handler{options: options, cached: reader(cached), live: reader(live)}
		response := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: "1", Namespace: "serving", Operation: admissionv1.Create, DryRun: &dryRun,
			Object: runtime.RawExtension{Raw: []byte(raw)},
		}})
		if !response.Allowed {
			return fmt.Sprintf("refused: %+v", response.Result), nil
		}
		answer, reason := patched(t, raw, response)
		lines := []string{answer}
		for _, warning := range response.Warnings {
			if reason != "" && warning == "peercache: "+reason {
				lines[0] = "warning, " + lines[0]
			} else {
				lines = append(lines, "warning: "+warning)
			}
		}
		return strings.Join(lines, "\n"), nil
	})
}

// applied is what the API server keeps of an object.
func applied(t *testing.T, raw []byte, response admission.Response) []byte {
	t.Helper()
	if len(response.Patches) == 0 {
		return raw
	}
	operations, err := json.Marshal(response.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(raw)
	if err != nil {
		t.Fatalf("applying %s: %v", operations, err)
	}
	return after
}

// patched applies the patch to what the API server has. The answer says what became of the pod, with the reason if it was left
// alone.
func patched(t *testing.T, raw string, response admission.Response) (answer, reason string) {
	t.Helper()
	if len(response.Patches) == 0 {
		return "unchanged", ""
	}
	after := applied(t, []byte(raw), response)
	if !strings.Contains(string(after), `"fromTheFuture":{"a":1}`) {
		t.Errorf("a field that this version does not know was lost: %s", after)
	}
	for _, operation := range response.Patches {
		if operation.Operation != "add" {
			t.Errorf("the patch does more than add: %s", operation.Json())
		}
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(after, pod); err != nil {
		t.Fatal(err)
	}
	if cluster := pod.Annotations[names.AnnotationInjected]; cluster != "" {
		answer = "injected of " + cluster
	}
	if cluster := pod.Annotations[names.AnnotationPartly]; cluster != "" {
		answer = "partly of " + cluster
	}
	if reason = pod.Annotations[names.AnnotationSkipReason]; reason != "" {
		answer += "left alone: " + reason
	}
	return answer, reason
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
