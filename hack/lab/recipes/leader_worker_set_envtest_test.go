// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package recipes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	leaderworkerset "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/lws/pkg/controllers"
	"sigs.k8s.io/lws/pkg/webhooks"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject/webhooktest"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// TestLeaderWorkerSet applies docs/samples/leader-worker-set.yaml. Two webhooks change its pods, in either order: PeerCache's is
// called again after that of LeaderWorkerSets.
func TestLeaderWorkerSet(t *testing.T) {
	for name, configuration := range map[string]string{"its webhook first": "lws", "its webhook last": "zz-lws"} {
		t.Run(name, func(t *testing.T) {
			serveLeaderWorkerSets(t, configuration)
			webhooktest.Serve(t, "ghcr.io/peercache/peercache/client:test")
			testenv.Controllers(t)
			for mode, delivery := range map[v1alpha1.InjectionMode]string{v1alpha1.InjectionNode: "node", v1alpha1.InjectionSidecar: "sidecar"} {
				t.Run(delivery, func(t *testing.T) { connectsGroup(t, mode) })
			}
		})
	}
}

func connectsGroup(t *testing.T, mode v1alpha1.InjectionMode) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	kv := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kv"}}
	kv.Spec.Memory.Pool, kv.Spec.Injection.Mode = resource.MustParse("1Gi"), mode
	set := &unstructured.Unstructured{}
	text, err := os.ReadFile(testenv.File(t, "docs/samples/leader-worker-set.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &set.Object); err != nil {
		t.Fatal(err)
	}
	set.SetNamespace(namespace)
	for _, object := range []client.Object{kv, set} {
		if err := c.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
			t.Fatalf("%s: %v", object.GetName(), err)
		}
	}
	pods := &corev1.PodList{}
	testenv.Eventually(t, func() error {
		err := c.List(t.Context(), pods, client.InNamespace(namespace))
		if err == nil && len(pods.Items) != 2 {
			err = fmt.Errorf("%d pods, want a leader and a worker", len(pods.Items))
		}
		return err
	})
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for rank, pod := range pods.Items {
		expectRank(t, &pod, rank)
		if sidecars := countSidecars(&pod); (mode == v1alpha1.InjectionSidecar) != (sidecars == 1) {
			t.Errorf("pod %s: %d sidecars in mode %s", pod.Name, sidecars, mode)
		}
	}
	// The test ends, its controllers too: nobody else would remove these.
	if err := c.Delete(t.Context(), set); err != nil {
		t.Error(err)
	}
}

// expectRank checks that SGLang is connected, and knows its place in the group.
func expectRank(t *testing.T, pod *corev1.Pod, rank int) {
	t.Helper()
	if pod.Annotations["peercache.io/injected-containers"] != "sglang=flags" {
		t.Errorf("pod %s: annotations %v", pod.Name, pod.Annotations)
	}
	container := pod.Spec.Containers[0]
	variables := map[string]string{}
	for i, variable := range container.Env {
		if _, twice := variables[variable.Name]; twice {
			t.Errorf("pod %s: variable %d, %s, is there twice", pod.Name, i, variable.Name)
		}
		variables[variable.Name] = variable.Value
	}
	for name, want := range map[string]string{
		"LWS_LEADER_ADDRESS": "deepseek-0.deepseek." + pod.Namespace, "LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": strconv.Itoa(rank),
		"PEERCACHE_SOCKET": "/run/peercache/default.sock", "PYTHONPATH": "/opt/peercache/python",
	} {
		if variables[name] != want {
			t.Errorf("pod %s: %s is %q, want %q", pod.Name, name, variables[name], want)
		}
	}
	args := strings.Join(container.Args, " ")
	for _, want := range []string{"--node-rank $(LWS_WORKER_INDEX)", "--hicache-storage-backend dynamic"} {
		if strings.Count(args, want) != 1 {
			t.Errorf("pod %s: %q is not once in %s", pod.Name, want, args)
		}
	}
	if copies := countContainers(pod.Spec.InitContainers, "peercache-client"); copies != 1 {
		t.Errorf("pod %s: %d containers copy the client", pod.Name, copies)
	}
}

func countSidecars(pod *corev1.Pod) int {
	return countContainers(pod.Spec.InitContainers, "peercached")
}

func countContainers(containers []corev1.Container, name string) (count int) {
	for i := range containers {
		if containers[i].Name == name {
			count++
		}
	}
	return count
}

// serveLeaderWorkerSets runs the controllers and webhooks of LeaderWorkerSets until the test ends.
func serveLeaderWorkerSets(t *testing.T, configuration string) {
	t.Helper()
	source := listed(t, "{{.Dir}}")
	if _, err := envtest.InstallCRDs(testenv.Config(), envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(source, "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml")},
	}); err != nil {
		t.Fatal(err)
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	text, err := os.ReadFile(filepath.Join(source, "config/webhook/manifests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
	if err := yaml.UnmarshalStrict([]byte(first), mutating); err != nil {
		t.Fatal(err)
	}
	mutating.Name = configuration // the API server calls webhooks in the order of these names
	options := webhooktest.InstallThese(t, mutating)

	scheme := testenv.Scheme()
	if err := leaderworkerset.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(testenv.Config(), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, WebhookServer: webhooktest.ServerAt(options),
		Controller: config.Controller{SkipNameValidation: new(true)}, // the same controllers for each test
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := controllers.SetupIndexes(mgr.GetFieldIndexer()); err != nil {
		t.Fatal(err)
	}
	for _, set := range []func() error{
		func() error {
			return controllers.NewLeaderWorkerSetReconciler(mgr.GetClient(), scheme, mgr.GetEventRecorder("lws")).SetupWithManager(mgr)
		},
		func() error {
			return controllers.NewPodReconciler(mgr.GetClient(), scheme, mgr.GetEventRecorder("lws"), nil).SetupWithManager(mgr)
		},
		func() error { return webhooks.SetupLeaderWorkerSetWebhook(mgr) },
		func() error { return webhooks.NewPodWebhook(nil).Setup(mgr) },
	} {
		if err := set(); err != nil {
			t.Fatal(err)
		}
	}
	webhooktest.Run(t, mgr)
	testenv.Eventually(t, func() error { return mgr.GetWebhookServer().StartedChecker()(nil) })
}

// TestVersionOnPage compares the version that docs/recipes.md names with the one that is tested.
func TestVersionOnPage(t *testing.T) {
	page, err := os.ReadFile(testenv.File(t, "docs/recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "LeaderWorkerSet " + strings.TrimPrefix(listed(t, "{{.Version}}"), "v") + ":"; !strings.Contains(string(page), want) {
		t.Errorf("docs/recipes.md lacks %q", want)
	}
}

// listed is what go.mod says about the module of LeaderWorkerSets.
func listed(t *testing.T, format string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", format, "sigs.k8s.io/lws").Output()
	if err != nil {
		t.Fatalf("go list -m sigs.k8s.io/lws: %v", err)
	}
	return strings.TrimSpace(string(output))
}
