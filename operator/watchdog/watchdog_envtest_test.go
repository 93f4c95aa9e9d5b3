// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package watchdog

import (
	"context"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// kennel is a namespace with a cluster and a watchdog with a clock of its own.
type kennel struct {
	*testing.T
	client.Client
	namespace string
	cluster   *v1alpha1.PeerCacheCluster
	dog       *Watchdog
	clock     time.Time
}

func newKennel(t *testing.T) *kennel {
	t.Helper()
	k := &kennel{T: t, Client: testenv.Client(t), namespace: testenv.Namespace(t), clock: time.Now().Add(-time.Hour)}
	k.cluster = &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "kv"},
		Spec:       v1alpha1.PeerCacheClusterSpec{Memory: v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi")}},
	}
	k.must(k.Create(t.Context(), k.cluster))
	pods, err := newCache(testenv.Config(), testenv.Scheme())
	k.must(err)
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
	k.dog = newWatchdog(pods.GetCache(), k.Client, k.Client, inject.Options{ClientImage: "client:test"})
	k.dog.now = func() time.Time { return k.clock }
	return k
}

func (k *kennel) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// pod creates an SGLang pod of a ReplicaSet; no webhook is there to connect it.
func (k *kennel) pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	k.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.namespace, Name: name, Labels: map[string]string{v1alpha1.LabelInject: "kv", "app": name},
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
	k.must(k.Create(k.Context(), pod))
	return pod
}

func (k *kennel) phase(pod *corev1.Pod, phase corev1.PodPhase) {
	k.Helper()
	pod.Status.Phase = phase
	k.must(k.Status().Update(k.Context(), pod))
}

// missed waits until these pods are missed, and gives them.
func (k *kennel) missed(names ...string) []metav1.PartialObjectMetadata {
	k.Helper()
	var pods []metav1.PartialObjectMetadata
	testenv.Eventually(k.T, 20*time.Second, func() (err error) {
		if pods, err = k.dog.Missed(k.Context(), k.cluster); err != nil {
			return err
		}
		var got []string
		for _, pod := range pods {
			got = append(got, pod.Name)
		}
		slices.Sort(got) // pods of one second are in the order of their namespaces, which have random names
		if strings.Join(got, " ") != strings.Join(names, " ") {
			return fmt.Errorf("missed %q, want %q", got, names)
		}
		return nil
	})
	return pods
}

// turn lets time pass and has one pod recreated.
func (k *kennel) turn(after time.Duration, pods []metav1.PartialObjectMetadata) (evicted, obstacle string) {
	k.Helper()
	k.clock = k.clock.Add(after)
	pod, obstacle := k.dog.RecreateOne(k.Context(), k.cluster, pods)
	if pod == nil {
		return "", obstacle
	}
	err := k.Get(k.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{})
	if !apierrors.IsNotFound(err) {
		k.Errorf("pod %s is still there: %v", pod.Name, err)
	}
	return pod.Name, obstacle
}

func free(p *corev1.Pod) { p.OwnerReferences = nil }

func TestMissed(t *testing.T) {
	k := newKennel(t)
	k.pod("b-missed")
	k.pod("a-missed", free)
	k.pod("connected", func(p *corev1.Pod) { p.Annotations = map[string]string{inject.AnnotationInjected: "kv"} })
	k.pod("skipped", func(p *corev1.Pod) { p.Annotations = map[string]string{inject.AnnotationSkipReason: "no"} })
	k.pod("unlabelled", func(p *corev1.Pod) { p.Labels = nil })
	k.pod("of-another", func(p *corev1.Pod) { p.Labels[v1alpha1.LabelInject] = "other" })
	k.phase(k.pod("finished"), corev1.PodSucceeded)
	elsewhere := testenv.Namespace(t)
	k.pod("elsewhere", func(p *corev1.Pod) {
		p.Namespace, p.Annotations = elsewhere, map[string]string{v1alpha1.AnnotationClusterNamespace: k.namespace}
	})
	pods := k.missed("a-missed", "b-missed", "elsewhere")
	for _, pod := range pods {
		if pod.Labels["app"] != "" || pod.ManagedFields != nil {
			t.Errorf("the cache holds more than it needs: %+v", pod)
		}
	}

	// A namespace that the cluster does not serve is none of its business.
	k.cluster.Spec.Injection.NamespaceSelector = &metav1.LabelSelector{
		MatchLabels: map[string]string{"kubernetes.io/metadata.name": k.namespace},
	}
	k.missed("a-missed", "b-missed")
}

func TestRecreateOne(t *testing.T) {
	k := newKennel(t)
	k.pod("a")
	k.pod("b", free)
	k.pod("c", func(p *corev1.Pod) {
		p.OwnerReferences[0].UID, p.Spec.Containers[0].Args = "owner-2", []string{"nginx"}
	})
	k.pod("d", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "owner-3" })
	pods := k.missed("a", "b", "c", "d")

	if evicted, obstacle := k.turn(time.Minute, pods); evicted != "a" || obstacle != "" {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
	pods = k.missed("b", "c", "d")
	if evicted, obstacle := k.turn(Every/2, pods); evicted != "" || obstacle != "" {
		t.Errorf("too soon: evicted %q, %q", evicted, obstacle)
	}
	if evicted, _ := k.turn(Every/2, pods); evicted != "d" {
		t.Errorf("evicted %q, want the first that can be helped", evicted)
	}
	pods = k.missed("b", "c")
	evicted, obstacle := k.turn(Every, pods)
	if evicted != "" || !strings.Contains(obstacle, k.namespace+"/b is left alone: no controller owns it") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
	if _, remembered := k.turn(time.Second, pods); remembered != obstacle {
		t.Errorf("between turns the obstacle is %q", remembered)
	}
	if _, obstacle := k.turn(Every, pods[1:]); !strings.Contains(obstacle, "would not be connected: no container starts SGLang") {
		t.Errorf("obstacle %q", obstacle)
	}

	// The successor of a is missed, too: something else is wrong, and evicting pods does not help.
	k.pod("e")
	if evicted, obstacle := k.turn(Every, k.missed("b", "c", "e")[2:]); evicted != "" || !strings.Contains(obstacle, "missed again") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
	if evicted, _ := k.turn(again, k.missed("b", "c", "e")[2:]); evicted != "e" {
		t.Errorf("after %s: evicted %q", again, evicted)
	}
}

func TestRecreateKeepsBudgets(t *testing.T) {
	k := newKennel(t)
	pod := k.pod("guarded")
	k.phase(pod, corev1.PodRunning)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "engines"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
		},
	}
	k.must(k.Create(t.Context(), budget))
	budget.Status.ObservedGeneration = budget.Generation // plays the controller that nobody runs here
	k.must(k.Status().Update(t.Context(), budget))
	pods := k.missed("guarded")
	if evicted, obstacle := k.turn(time.Minute, pods); evicted != "" || !strings.Contains(obstacle, "PodDisruptionBudget") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
	k.must(k.Delete(t.Context(), budget))
	if evicted, obstacle := k.turn(Every, pods); evicted != "guarded" {
		t.Errorf("without the budget: evicted %q, %q", evicted, obstacle)
	}
}

// What was found may be another pod by now, or connected, or finished.
func TestRecreateLooksAgain(t *testing.T) {
	k := newKennel(t)
	pod := k.pod("a")
	pods := k.missed("a")
	k.phase(pod, corev1.PodFailed)
	if evicted, obstacle := k.turn(time.Minute, pods); evicted != "" || !strings.Contains(obstacle, "changed meanwhile") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
	k.must(k.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	k.pod("a")
	if evicted, obstacle := k.turn(Every, pods); evicted != "" || !strings.Contains(obstacle, "changed meanwhile") {
		t.Errorf("evicted %q, %q", evicted, obstacle)
	}
}
