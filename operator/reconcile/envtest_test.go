// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/plan"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// bench is a test bench: one namespace with a reconciler that the test calls, so that it sees every pass.
type bench struct {
	*testing.T
	client.Client
	namespace  string
	reconciler *Reconciler
	recorder   *events.FakeRecorder
	writes     *writes
	fleet      *fakeFleet
}

func newBench(t *testing.T) *bench {
	t.Helper()
	testenv.InstallNetworkPolicies(t)
	b := &bench{
		T: t, Client: testenv.Client(t), namespace: testenv.Namespace(t),
		recorder: events.NewFakeRecorder(100), writes: &writes{}, fleet: &fakeFleet{},
	}
	config := testenv.Config()
	config.Wrap(b.writes.watch)
	counted, err := client.New(config, client.Options{Scheme: testenv.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	b.reconciler = &Reconciler{
		Client: counted, Live: counted, Events: b.recorder, Fleet: b.fleet,
		Facts: plan.Facts{DataplaneImage: "dataplane:1"},
		Now:   time.Now,
	}
	return b
}

// cluster creates a PeerCacheCluster named demo.
func (b *bench) cluster(changes ...func(*v1alpha1.PeerCacheClusterSpec)) *v1alpha1.PeerCacheCluster {
	b.Helper()
	cluster := &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "demo"},
		Spec:       v1alpha1.PeerCacheClusterSpec{Memory: v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi")}},
	}
	for _, change := range changes {
		change(&cluster.Spec)
	}
	b.must(b.Create(b.Context(), cluster))
	return cluster
}

// change updates the spec of the cluster.
func (b *bench) change(change func(*v1alpha1.PeerCacheClusterSpec)) {
	b.Helper()
	cluster := b.get()
	change(&cluster.Spec)
	b.must(b.Update(b.Context(), cluster))
}

func (b *bench) get() *v1alpha1.PeerCacheCluster {
	b.Helper()
	cluster := &v1alpha1.PeerCacheCluster{}
	b.read("demo", cluster)
	return cluster
}

func (b *bench) read(name string, into client.Object) {
	b.Helper()
	b.must(b.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, into))
}

func (b *bench) daemonSet(group string) *appsv1.DaemonSet {
	b.Helper()
	daemonSet := &appsv1.DaemonSet{}
	b.read("demo-"+group, daemonSet)
	return daemonSet
}

// pass reconciles once, and returns the writes.
func (b *bench) pass() []string {
	b.Helper()
	b.writes.reset()
	_, err := b.reconciler.Reconcile(b.Context(), ctrl.Request{
		NamespacedName: client.ObjectKey{Namespace: b.namespace, Name: "demo"}})
	b.must(err)
	return b.writes.list()
}

// startPods acts as the DaemonSet controller and the kubelets: it creates the pods of a group and counts the ready
// ones.
func (b *bench) startPods(group string, ready ...bool) []corev1.Pod {
	b.Helper()
	daemonSet := b.daemonSet(group)
	pods := make([]corev1.Pod, len(ready))
	var readyCount int32
	for i, isReady := range ready {
		pods[i] = corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: b.namespace, Name: daemonSet.Name + "-" + string(rune('a'+i)),
				Labels: daemonSet.Spec.Template.Labels,
				OwnerReferences: []metav1.OwnerReference{
					*metav1.NewControllerRef(daemonSet, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
			},
			Spec: daemonSet.Spec.Template.Spec,
		}
		b.must(b.Create(b.Context(), &pods[i]))
		status := corev1.ConditionFalse
		if isReady {
			status = corev1.ConditionTrue
			readyCount++
		}
		pods[i].Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0." + string(rune('1'+i)),
			PodIPs: []corev1.PodIP{{IP: "10.0.0." + string(rune('1'+i))}},
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}},
		}
		b.must(b.Status().Update(b.Context(), &pods[i]))
	}
	b.setCounts(group, int32(len(ready)), int32(len(ready)), readyCount)
	return pods
}

// setCounts sets the status of a DaemonSet, as its controller does.
func (b *bench) setCounts(group string, desired, updated, ready int32) {
	b.Helper()
	daemonSet := b.daemonSet(group)
	daemonSet.Status = appsv1.DaemonSetStatus{
		ObservedGeneration: daemonSet.Generation, DesiredNumberScheduled: desired,
		CurrentNumberScheduled: desired, UpdatedNumberScheduled: updated, NumberReady: ready,
	}
	b.must(b.Status().Update(b.Context(), daemonSet))
}

// condition checks one condition of the cluster, and that it has the current generation.
func (b *bench) condition(kind string, status metav1.ConditionStatus, reason, says string) {
	b.Helper()
	cluster := b.get()
	condition := meta.FindStatusCondition(cluster.Status.Conditions, kind)
	if condition == nil {
		b.Fatalf("there is no condition %s in %+v", kind, cluster.Status.Conditions)
	}
	if condition.Status != status || condition.Reason != reason || !strings.Contains(condition.Message, says) {
		b.Errorf("%s is %s/%s (%s), want %s/%s saying %q",
			kind, condition.Status, condition.Reason, condition.Message, status, reason, says)
	}
	if condition.ObservedGeneration != cluster.Generation || cluster.Status.ObservedGeneration != cluster.Generation {
		b.Errorf("%s speaks about generation %d, the status about %d, the spec is at %d", kind,
			condition.ObservedGeneration, cluster.Status.ObservedGeneration, cluster.Generation)
	}
}

// hosts returns the last letters of the names of the pods with the discovery label.
func (b *bench) hosts() string {
	b.Helper()
	var pods corev1.PodList
	b.must(b.List(b.Context(), &pods, client.InNamespace(b.namespace),
		client.MatchingLabels{v1alpha1.LabelDiscovery: v1alpha1.DiscoveryHost}))
	var letters []string
	for _, pod := range pods.Items {
		letters = append(letters, pod.Name[len(pod.Name)-1:])
	}
	return strings.Join(letters, " ")
}

// events returns the events since the last call, one text per event.
func (b *bench) events() []string {
	var list []string
	for {
		select {
		case event := <-b.recorder.Events:
			list = append(list, event)
		default:
			return list
		}
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// writes records every request that may change something.
type writes struct {
	mu       sync.Mutex
	requests []string
}

func (w *writes) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			w.mu.Lock()
			w.requests = append(w.requests, request.Method+" "+request.URL.Path)
			w.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

func (w *writes) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = nil
}

func (w *writes) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// fakeFleet answers in the place of the nodes.
type fakeFleet struct {
	asked   []string
	answers []fleet.NodeStatus
	err     error
}

func (f *fakeFleet) Ask(_ context.Context, addresses []string) ([]fleet.NodeStatus, error) {
	f.asked = addresses
	return f.answers, f.err
}
