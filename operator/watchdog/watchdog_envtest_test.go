// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package watchdog

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/names"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// fixture is a namespace with a cluster, and a watchdog with its own clock.
type fixture struct {
	*testing.T
	client.Client
	namespace string
	cluster   *v1alpha1.PeerCacheCluster
	watchdog  *Watchdog
	clock     time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, Client: testenv.Client(t), namespace: testenv.Namespace(t), clock: time.Now().Add(-time.Hour)}
	f.cluster = &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "kv"},
		Spec:       v1alpha1.PeerCacheClusterSpec{Memory: v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi")}},
	}
	f.must(f.Create(t.Context(), f.cluster))
	pods, err := newCache(testenv.Config(), testenv.Scheme(), nil)
	f.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- pods.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	if !pods.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not fill")
	}
	f.watchdog = newWatchdog(pods.GetCache(), f.Client, f.Client, inject.Options{ClientImage: "client:test"})
	f.watchdog.now = func() time.Time { return f.clock }
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// pod creates an SGLang pod of a ReplicaSet. No webhook connects it.
func (f *fixture) pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	f.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.namespace, Name: name, Labels: map[string]string{v1alpha1.LabelInject: "kv", "app": name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "engine", UID: "owner-1", Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "sglang", Args: []string{"python3", "-m", "sglang.launch_server", "--model-path", "x"},
		}}},
	}
	for _, change := range changes {
		change(pod)
	}
	f.must(f.Create(f.Context(), pod))
	return pod
}

func (f *fixture) phase(pod *corev1.Pod, phase corev1.PodPhase) {
	f.Helper()
	pod.Status.Phase = phase
	f.must(f.Status().Update(f.Context(), pod))
}

// missed waits until exactly these pods are missed, and returns them.
func (f *fixture) missed(names ...string) []corev1.Pod {
	f.Helper()
	var pods []corev1.Pod
	testenv.Eventually(f.T, func() (err error) {
		if pods, err = f.watchdog.Missed(f.Context(), f.cluster); err != nil {
			return err
		}
		var got []string
		for _, pod := range pods {
			got = append(got, pod.Name)
		}
		slices.Sort(got) // pods of the same second are sorted by their namespaces, which have random names
		if strings.Join(got, " ") != strings.Join(names, " ") {
			return fmt.Errorf("missed %q, want %q", got, names)
		}
		return nil
	})
	return pods
}

// TestPartly checks that pods without flags are found, and are not missed.
func TestPartly(t *testing.T) {
	f := newFixture(t)
	f.pod("script", func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, names.AnnotationPartly, "kv") })
	f.pod("connected", func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, names.AnnotationInjected, "kv") })
	f.pod("missed")
	f.missed("missed")
	pods, err := f.watchdog.Partly(t.Context(), f.cluster)
	f.must(err)
	if len(pods) != 1 || pods[0].Name != "script" {
		t.Errorf("partly connected: %+v", pods)
	}
}

// TestEngines checks that connected pods on machines are engines, with what their status says.
func TestEngines(t *testing.T) {
	f := newFixture(t)
	connected := func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, names.AnnotationInjected, "kv")
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, names.AnnotationContainers, "main=flags")
		p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "--tp", "4")
	}
	on := func(machine string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = machine } }
	running := f.pod("running", connected, on("gpu-1"))
	f.pod("waiting", connected)
	f.pod("missed", on("gpu-1"))
	at := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	running.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at}}
	f.phase(running, corev1.PodRunning)
	testenv.Eventually(t, func() error {
		engines, err := f.watchdog.Engines(t.Context(), f.cluster)
		want := inject.Engine{Pod: f.namespace + "/running", Machine: "gpu-1", Ranks: 4, State: inject.EngineReady, Since: at.Time}
		if err != nil || len(engines) != 1 || !engines[0].Since.Equal(want.Since) {
			return fmt.Errorf("engines %+v, want %+v (error %w)", engines, want, err)
		}
		if engines[0].Since = want.Since; engines[0] != want {
			return fmt.Errorf("engine %+v, want %+v", engines[0], want)
		}
		return nil
	})
}

// TestRecreateLeavesScriptsAlone checks that a pod is not evicted for a successor that would not use the cache either.
func TestRecreateLeavesScriptsAlone(t *testing.T) {
	f := newFixture(t)
	f.pod("script", func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"sh", "-c", "sglang serve --model-path x"} })
	if evicted, obstacle := f.recreate(0, f.missed("script")); evicted != "" || !strings.Contains(obstacle, "it would not use the cache: container") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
}

// recreate advances the clock and recreates one pod.
func (f *fixture) recreate(after time.Duration, pods []corev1.Pod) (evicted, obstacle string) {
	f.Helper()
	f.clock = f.clock.Add(after)
	pod, obstacle := f.watchdog.RecreateOne(f.Context(), f.cluster, pods)
	if pod == nil {
		return "", obstacle
	}
	err := f.Get(f.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{})
	if !apierrors.IsNotFound(err) {
		f.Errorf("pod %s is still there: %v", pod.Name, err)
	}
	return pod.Name, obstacle
}

func withoutOwner(p *corev1.Pod) { p.OwnerReferences = nil }

func TestMissed(t *testing.T) {
	f := newFixture(t)
	f.pod("b-missed")
	f.pod("a-missed", withoutOwner)
	f.pod("connected", func(p *corev1.Pod) { p.Annotations = map[string]string{names.AnnotationInjected: "kv"} })
	f.pod("skipped", func(p *corev1.Pod) { p.Annotations = map[string]string{names.AnnotationSkipReason: "no"} })
	f.pod("unlabelled", func(p *corev1.Pod) { p.Labels = nil })
	f.pod("of-another", func(p *corev1.Pod) { p.Labels[v1alpha1.LabelInject] = "other" })
	f.phase(f.pod("finished"), corev1.PodSucceeded)
	elsewhere := testenv.Namespace(t)
	f.pod("elsewhere", func(p *corev1.Pod) {
		p.Namespace, p.Annotations = elsewhere, map[string]string{v1alpha1.AnnotationClusterNamespace: f.namespace}
	})
	f.missed("a-missed", "b-missed") // the cluster does not serve the other namespace
	f.cluster.Spec.Injection.NamespaceSelector = &metav1.LabelSelector{}
	pods := f.missed("a-missed", "b-missed", "elsewhere")
	for _, pod := range pods {
		if pod.Labels["app"] != "" || pod.ManagedFields != nil {
			t.Errorf("the cache holds more than it needs: %+v", pod)
		}
	}

	// A namespace that is no longer selected is not served. The cluster's own namespace always is.
	f.cluster.Spec.Injection.NamespaceSelector = &metav1.LabelSelector{
		MatchLabels: map[string]string{"kubernetes.io/metadata.name": "somewhere"},
	}
	f.missed("a-missed", "b-missed")
}

func TestRecreateOne(t *testing.T) {
	f := newFixture(t)
	f.pod("a")
	f.pod("b", withoutOwner)
	f.pod("c", func(p *corev1.Pod) {
		p.OwnerReferences[0].UID, p.Spec.Containers[0].Args = "owner-2", []string{"nginx"}
	})
	f.pod("d", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "owner-3" })
	pods := f.missed("a", "b", "c", "d")

	if evicted, obstacle := f.recreate(time.Minute, pods); evicted != "a" || obstacle != "" {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
	pods = f.missed("b", "c", "d")
	if evicted, obstacle := f.recreate(RecreateInterval/2, pods); evicted != "" || obstacle != "" {
		t.Errorf("too soon: evicted %q, %q", evicted, obstacle)
	}
	if evicted, _ := f.recreate(RecreateInterval/2, pods); evicted != "d" {
		t.Errorf("evicted %q, want the first that can be helped", evicted)
	}
	pods = f.missed("b", "c")
	evicted, obstacle := f.recreate(RecreateInterval, pods)
	if evicted != "" || !strings.Contains(obstacle, f.namespace+"/b is left alone: no controller owns it") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
	if _, remembered := f.recreate(time.Second, pods); remembered != obstacle {
		t.Errorf("between turns the obstacle is %q", remembered)
	}
	if _, obstacle := f.recreate(RecreateInterval, pods[1:]); !strings.Contains(obstacle, "would not be connected: no container starts SGLang") {
		t.Errorf("obstacle %q", obstacle)
	}

	// The successor of a is missed too, so evicting pods does not help.
	f.pod("e")
	if evicted, obstacle := f.recreate(RecreateInterval, f.missed("b", "c", "e")[2:]); evicted != "" || !strings.Contains(obstacle, "missed again") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
	if evicted, _ := f.recreate(retryAfter, f.missed("b", "c", "e")[2:]); evicted != "e" {
		t.Errorf("after %s: evicted %q", retryAfter, evicted)
	}
}

func TestRecreateKeepsBudgets(t *testing.T) {
	f := newFixture(t)
	pod := f.pod("guarded")
	f.phase(pod, corev1.PodRunning)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "engines"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
		},
	}
	f.must(f.Create(t.Context(), budget))
	budget.Status.ObservedGeneration = budget.Generation // as the controller would do, which does not run here
	f.must(f.Status().Update(t.Context(), budget))
	pods := f.missed("guarded")
	if evicted, obstacle := f.recreate(time.Minute, pods); evicted != "" || !strings.Contains(obstacle, "PodDisruptionBudget") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
	f.must(f.Delete(t.Context(), budget))
	if evicted, obstacle := f.recreate(RecreateInterval, pods); evicted != "guarded" {
		t.Errorf("without the budget: evicted %q, %q", evicted, obstacle)
	}
}

// TestRecreateReadsThePodAgain: the pod may have been replaced, connected or finished meanwhile.
func TestRecreateReadsThePodAgain(t *testing.T) {
	f := newFixture(t)
	pod := f.pod("a")
	pods := f.missed("a")
	f.phase(pod, corev1.PodFailed)
	if evicted, obstacle := f.recreate(time.Minute, pods); evicted != "" || !strings.Contains(obstacle, "changed meanwhile") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
	f.must(f.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	f.pod("a")
	if evicted, obstacle := f.recreate(RecreateInterval, pods); evicted != "" || !strings.Contains(obstacle, "changed meanwhile") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
}

// TestRecreateWithoutRights checks that an operator without the right to evict names the remedy, and does not try every pod
// repeatedly.
func TestRecreateWithoutRights(t *testing.T) {
	f := newFixture(t)
	config, asked := testenv.Config(), 0
	config.Impersonate = rest.ImpersonationConfig{UserName: "restricted", Groups: []string{"system:authenticated"}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if strings.HasSuffix(request.URL.Path, "/eviction") {
				asked++
			}
			return next.RoundTrip(request)
		})
	})
	restricted, err := client.New(config, client.Options{Scheme: testenv.Scheme()})
	f.must(err)
	f.watchdog.writer = restricted
	f.pod("a")
	f.pod("b")
	pods := f.missed("a", "b")
	for range 3 {
		pod, obstacle := f.watchdog.RecreateOne(t.Context(), f.cluster, pods)
		if pod != nil || !strings.Contains(obstacle, "/a is left alone: the operator has no permission to evict pods of its namespace: set rbac.missedPods") {
			t.Errorf("evicted %v, %q", pod, obstacle)
		}
		f.clock = f.clock.Add(RecreateInterval)
	}
	if asked != len(pods) {
		t.Errorf("%d evictions of %d pods were tried", asked, len(pods))
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
