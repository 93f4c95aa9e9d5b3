// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package inject_test

import (
	"errors"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject/injecttest"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/webhooktest"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

const clientImage = "ghcr.io/peercache/peercache/client:test"

// warnings collects the warnings that the API server sends to a client.
type warnings struct {
	mutex sync.Mutex
	text  []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.text = append(w.text, text)
}

func (w *warnings) has(part string) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return strings.Contains(strings.Join(w.text, "\n"), part)
}

func TestWebhook(t *testing.T) {
	webhooktest.Serve(t, clientImage)
	t.Run("a labelled pod is connected", connects)
	t.Run("an unlabelled pod is left alone", leavesUnlabelledAlone)
	t.Run("a later change of the pod is left alone", leavesUpdatesAlone)
	t.Run("without its cluster a pod gets a reason and a warning", explainsMissingCluster)
	t.Run("the cluster's namespaceSelector is honoured", honoursNamespaceSelector)
	t.Run("without one a cluster serves no other namespace, and the pod says what to write", servesItsOwnNamespace)
	t.Run("the image that a cluster's author chooses runs in the author's namespace only", keepsAuthorsImagesAtHome)
	t.Run("a pod of a cluster with an admission policy is left to it", leavesToPolicy)
	t.Run("a Guaranteed pod stays Guaranteed", keepsQualityOfService)
	for name, spec := range testdataSpecs {
		t.Run("every pod of testdata is accepted, and injected once: "+name, func(t *testing.T) { acceptsTestdata(t, spec) })
	}
	t.Run("the init container may run in a restricted namespace", initContainerIsRestricted)
}

func connects(t *testing.T) {
	c, namespace := testenv.Client(t), newServing(t, nil)
	pod := newEngine(namespace)
	create(t, c, pod)
	if pod.Annotations[names.AnnotationInjected] != "kv" || pod.Annotations[names.AnnotationContainers] != "main=flags" {
		t.Errorf("annotations: %v", pod.Annotations)
	}
	if len(pod.Spec.InitContainers) != 1 || pod.Spec.InitContainers[0].Image != clientImage {
		t.Errorf("init containers: %+v", pod.Spec.InitContainers)
	}
	args := strings.Join(pod.Spec.Containers[0].Args, " ")
	if !strings.Contains(args, "--hicache-storage-backend dynamic") || !strings.Contains(args, "/run/peercache/default.sock") {
		t.Errorf("args: %s", args)
	}
	var directory string
	for _, v := range pod.Spec.Volumes {
		if v.HostPath != nil {
			directory = v.HostPath.Path
		}
	}
	if directory != "/run/peercache/"+namespace+"/kv.tenants" {
		t.Errorf("socket directory: %s", directory)
	}
}

func leavesUnlabelledAlone(t *testing.T) {
	c, namespace := testenv.Client(t), newServing(t, nil)
	pod := newEngine(namespace)
	pod.Labels = nil
	create(t, c, pod)
	if len(pod.Spec.InitContainers) != 0 || len(pod.Annotations) != 0 || len(pod.Spec.Containers[0].Env) != 0 {
		t.Errorf("the pod was changed: %+v", pod)
	}
}

func leavesToPolicy(t *testing.T) {
	c := testenv.Client(t)
	namespace := newServingAs(t, v1alpha1.PeerCacheClusterSpec{Injection: v1alpha1.InjectionSpec{By: v1alpha1.InjectionByPolicy}})
	pod := newEngine(namespace)
	create(t, c, pod)
	if len(pod.Spec.InitContainers) != 0 || len(pod.Annotations) != 0 {
		t.Errorf("the webhook changed the pod: %+v", pod)
	}
}

func leavesUpdatesAlone(t *testing.T) {
	c, namespace := testenv.Client(t), newServing(t, nil)
	pod := newEngine(namespace)
	pod.Labels = nil
	create(t, c, pod)
	pod.Labels = map[string]string{v1alpha1.LabelInject: "kv"}
	if err := c.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if len(pod.Annotations) != 0 {
		t.Errorf("annotations: %v", pod.Annotations)
	}
}

func explainsMissingCluster(t *testing.T) {
	heard := &warnings{}
	config := testenv.Config()
	config.WarningHandler = heard
	c, err := client.New(config, client.Options{Scheme: testenv.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	namespace := testenv.Namespace(t)
	pod := newEngine(namespace)
	create(t, c, pod)
	want := "PeerCacheCluster " + namespace + "/kv does not exist"
	if reason := pod.Annotations[names.AnnotationSkipReason]; !strings.Contains(reason, want) {
		t.Errorf("reason: %s", reason)
	}
	if len(pod.Spec.InitContainers) != 0 || len(pod.Spec.Containers[0].Env) != 0 {
		t.Errorf("the pod was changed: %+v", pod.Spec)
	}
	if !heard.has(want) {
		t.Errorf("warnings: %q", heard.text)
	}
}

func honoursNamespaceSelector(t *testing.T) {
	c := testenv.Client(t)
	served := newServing(t, &metav1.LabelSelector{MatchLabels: map[string]string{"purpose": "inference"}})
	namespace := testenv.Namespace(t)
	newPod := func() *corev1.Pod {
		pod := newEngine(namespace)
		pod.Annotations = map[string]string{v1alpha1.AnnotationClusterNamespace: served}
		return pod
	}
	first := newPod()
	create(t, c, first)
	if reason := first.Annotations[names.AnnotationSkipReason]; !strings.Contains(reason, "serves no pods of namespace "+namespace) {
		t.Errorf("reason: %s", reason)
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"purpose":"inference"}}}`))
	if err := c.Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*corev1.Pod{newPod(), newEngine(served)} {
		create(t, c, pod)
		if pod.Annotations[names.AnnotationInjected] != "kv" {
			t.Errorf("annotations: %v", pod.Annotations)
		}
	}
}

func keepsAuthorsImagesAtHome(t *testing.T) {
	c, elsewhere := testenv.Client(t), testenv.Namespace(t)
	spec := v1alpha1.PeerCacheClusterSpec{Injection: v1alpha1.InjectionSpec{NamespaceSelector: &metav1.LabelSelector{}}}
	spec.Injection.Client.Image = "author/client:1"
	home := newServingAs(t, spec)
	for namespace, want := range map[string]string{home: "author/client:1", elsewhere: clientImage} {
		pod := newEngine(namespace)
		pod.Annotations = map[string]string{v1alpha1.AnnotationClusterNamespace: home}
		create(t, c, pod)
		if len(pod.Spec.InitContainers) != 1 || pod.Spec.InitContainers[0].Image != want {
			t.Errorf("init containers in %s, want one with image %s: %+v", namespace, want, pod.Spec.InitContainers)
		}
	}
}

func servesItsOwnNamespace(t *testing.T) {
	c, served, namespace := testenv.Client(t), newServing(t, nil), testenv.Namespace(t)
	pod := newEngine(namespace)
	pod.Annotations = map[string]string{v1alpha1.AnnotationClusterNamespace: served}
	create(t, c, pod)
	want := "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: " + namespace + "}}"
	if reason := pod.Annotations[names.AnnotationSkipReason]; !strings.Contains(reason, want) || len(pod.Spec.InitContainers) != 0 {
		t.Errorf("reason: %s; init containers: %+v", reason, pod.Spec.InitContainers)
	}
}

func keepsQualityOfService(t *testing.T) {
	c, namespace := testenv.Client(t), newServing(t, nil)
	pod := newEngine(namespace)
	need := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("64Gi"),
	}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: need, Limits: need}
	create(t, c, pod)
	if pod.Annotations[names.AnnotationInjected] != "kv" || pod.Status.QOSClass != corev1.PodQOSGuaranteed {
		t.Errorf("annotations %v, quality of service %s", pod.Annotations, pod.Status.QOSClass)
	}
}

// testdataSpecs are the modes and deliveries, with rails that ask a pod for devices and networks.
var testdataSpecs = map[string]v1alpha1.PeerCacheClusterSpec{
	"node": {},
	"sidecar": {Injection: v1alpha1.InjectionSpec{
		Mode: v1alpha1.InjectionSidecar, Client: v1alpha1.ClientSpec{Delivery: v1alpha1.ClientImageVolume},
	}},
	"sidecar with rails": {
		Transport: v1alpha1.TransportRDMA,
		Rails: []v1alpha1.Rail{{
			Name: "rail0", Attachment: v1alpha1.AttachmentSharedDevicePlugin, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "rdma/rail0"},
			Network: &v1alpha1.RailNetwork{Name: "rail0"},
		}, {
			Name: "rail1", Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: "nics"},
		}},
		Security: v1alpha1.SecuritySpec{TLS: &v1alpha1.TLSSpec{SecretName: "kv-peers-tls"}},
		Injection: v1alpha1.InjectionSpec{
			Mode: v1alpha1.InjectionSidecar, Memory: &v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi"), HugePages: v1alpha1.HugePages1Gi},
		},
	},
	"embedded with rails": {
		Transport: v1alpha1.TransportRDMA,
		Rails: []v1alpha1.Rail{{
			Name: "rail0", Attachment: v1alpha1.AttachmentSRIOV, SRIOV: &v1alpha1.VirtualFunction{ResourceName: "n.com/rail0"},
			Network: &v1alpha1.RailNetwork{Name: "rail0"},
		}, {
			Name: "rail1", Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: "nics"},
		}},
		Security: v1alpha1.SecuritySpec{TLS: &v1alpha1.TLSSpec{SecretName: "kv-peers-tls"}},
		Injection: v1alpha1.InjectionSpec{
			Mode: v1alpha1.InjectionEmbedded, Client: v1alpha1.ClientSpec{Delivery: v1alpha1.ClientPreinstalled},
			Memory: &v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi"), HugePages: v1alpha1.HugePages2Mi},
		},
	},
}

// acceptsTestdata checks every pod of testdata. With the label, the API server accepts it whenever it accepts it without. The
// result, with all defaults, is admitted again unchanged.
func acceptsTestdata(t *testing.T, spec v1alpha1.PeerCacheClusterSpec) {
	c := testenv.Client(t)
	namespace := newServingAs(t, spec)
	compared := 0
	for _, file := range injecttest.CaseFiles(t, "testdata") {
		name, pod := injecttest.CaseName(file), injecttest.ReadPod(t, file)
		pod.Name, pod.Namespace = name, namespace
		delete(pod.Annotations, v1alpha1.AnnotationClusterNamespace)

		if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Image != nil }) && testenv.Minor(t) < 35 {
			continue // the API server removes that volume
		}
		plain := pod.DeepCopy()
		plain.Labels = nil
		if err := c.Create(t.Context(), plain, client.DryRunAll); err != nil {
			t.Logf("%s: no valid pod by itself: %v", name, err)
			continue
		}
		if err := c.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("%s: accepted without the label, but with it: %v", name, err)
			continue
		}
		again := pod.DeepCopy()
		again.ObjectMeta = metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Annotations: maps.Clone(pod.Annotations),
		}
		again.Status = corev1.PodStatus{}
		if err := c.Create(t.Context(), again, client.DryRunAll); err != nil {
			t.Errorf("%s: accepted once, but not again: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(pod.Spec, again.Spec) || !reflect.DeepEqual(pod.Annotations, again.Annotations) {
			t.Errorf("%s: the second time the pod changed from\n%+v\nto\n%+v", name, pod, again)
		}
		compared++
	}
	if compared < 50 {
		t.Errorf("only %d pods were compared", compared)
	}
}

func initContainerIsRestricted(t *testing.T) {
	c, namespace := testenv.Client(t), newServing(t, nil)
	pod := newEngine(namespace)
	create(t, c, pod)

	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "restricted-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := c.Create(t.Context(), restricted); err != nil {
		t.Fatal(err)
	}
	// The socket directory is a hostPath, which that level forbids for every pod. The rest must pass.
	copying := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "copy-", Namespace: restricted.Name},
		Spec: corev1.PodSpec{
			Containers: pod.Spec.InitContainers,
			Volumes: []corev1.Volume{
				{Name: "peercache-client", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
	create(t, c, copying)
	careless := newEngine(restricted.Name)
	careless.Labels = nil
	if err := c.Create(t.Context(), careless); err == nil {
		t.Error("the namespace is not restricted: it accepts any pod")
	}
}

// TestWebhookIsDown checks that pods are created while nothing listens where the API server calls.
func TestWebhookIsDown(t *testing.T) {
	options := webhooktest.Install(t)
	address := net.JoinHostPort(options.LocalServingHost, strconv.Itoa(options.LocalServingPort))
	if connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
		t.Fatal(errors.Join(errors.New("something listens at "+address), connection.Close()))
	}
	c, namespace := testenv.Client(t), newServing(t, nil)
	pod := newEngine(namespace)
	create(t, c, pod)
	if len(pod.Annotations) != 0 || len(pod.Spec.InitContainers) != 0 {
		t.Errorf("the pod was changed: %+v", pod)
	}
}

// newServing creates a namespace with the cluster kv.
func newServing(t *testing.T, selector *metav1.LabelSelector) string {
	t.Helper()
	return newServingAs(t, v1alpha1.PeerCacheClusterSpec{Injection: v1alpha1.InjectionSpec{NamespaceSelector: selector}})
}

func newServingAs(t *testing.T, spec v1alpha1.PeerCacheClusterSpec) string {
	t.Helper()
	namespace := testenv.Namespace(t)
	spec.Memory.Pool = resource.MustParse("1Gi")
	create(t, testenv.Client(t), &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kv"}, Spec: spec,
	})
	return namespace
}

func newEngine(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "engine-", Namespace: namespace, Labels: map[string]string{v1alpha1.LabelInject: "kv"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "lmsysorg/sglang:v0.5.23",
			Args: []string{"python3", "-m", "sglang.launch_server", "--model-path", "/models/qwen"},
		}}},
	}
}

func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}
