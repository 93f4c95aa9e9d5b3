// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/podtest"
)

var (
	noon        = podtest.Noon
	testPod     = podtest.Pod
	hosting     = podtest.Hosting
	terminating = podtest.Terminating
	aged        = podtest.Aged
	unreadyFor  = podtest.UnreadyFor
	pending     = podtest.Pending
	cached      = podtest.Cached
)

// withPeers sets the label LabelPeers of a pod, which differs between the two halves of an update.
func withPeers(peers string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[v1alpha1.LabelPeers] = peers }
}

func TestChoose(t *testing.T) {
	tests := []struct {
		name        string
		replicas    int
		pods        []corev1.Pod
		add, remove string
		machines    []corev1.Node
	}{
		{name: "no pods", replicas: 3},
		{name: "all of a few", replicas: 3, pods: []corev1.Pod{testPod("a"), testPod("b")}, add: "a b"},
		{name: "the oldest of many", replicas: 2, add: "b c", pods: []corev1.Pod{
			testPod("a", aged(time.Minute)), testPod("b", aged(3*time.Minute)), testPod("c", aged(2*time.Minute)),
		}},
		{name: "the name decides between equals", replicas: 1, add: "a", pods: []corev1.Pod{testPod("b"), testPod("a")}},
		{name: "ready before running", replicas: 1, add: "ready", pods: []corev1.Pod{
			testPod("old", aged(2*time.Hour), unreadyFor(time.Second)), testPod("ready"),
		}},
		{name: "running when none is ready", replicas: 1, add: "a", pods: []corev1.Pod{
			testPod("a", unreadyFor(time.Second)), testPod("b", pending),
		}},
		{name: "pending never", replicas: 3, pods: []corev1.Pod{testPod("a", pending)}},
		{name: "hosts stay", replicas: 2, pods: []corev1.Pod{
			testPod("older", aged(2*time.Hour)), testPod("a", hosting), testPod("b", hosting),
		}},
		{name: "a host that restarts stays", replicas: 1, pods: []corev1.Pod{
			testPod("a", hosting, unreadyFor(5*time.Second)), testPod("b"),
		}},
		{name: "a host that is lost is replaced", replicas: 1, add: "b", remove: "a", pods: []corev1.Pod{
			testPod("a", hosting, unreadyFor(time.Minute)), testPod("b"),
		}},
		{name: "a lost host stays when none is better", replicas: 1, pods: []corev1.Pod{
			testPod("a", hosting, unreadyFor(time.Minute)), testPod("b", unreadyFor(time.Minute)),
		}},
		{name: "a host that ends is replaced", replicas: 1, add: "b", pods: []corev1.Pod{
			testPod("a", hosting, terminating), testPod("b"),
		}},
		{name: "a host that failed is replaced", replicas: 1, add: "b", remove: "a", pods: []corev1.Pod{
			testPod("a", hosting, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), testPod("b"),
		}},
		{name: "surplus hosts lose the label", replicas: 1, remove: "a c", pods: []corev1.Pod{
			testPod("a", hosting), testPod("b", hosting, aged(2*time.Hour)), testPod("c", hosting),
		}},

		{name: "one on each machine, though one has the oldest pods", replicas: 2, add: "a c", pods: []corev1.Pod{
			testPod("a", on("m1"), aged(3*time.Hour)), testPod("b", on("m1"), aged(2*time.Hour)), testPod("c", on("m2")),
		}},
		{name: "ready before spread", replicas: 2, add: "a b", pods: []corev1.Pod{
			testPod("a", on("m1")), testPod("b", on("m1")), testPod("c", on("m2"), unreadyFor(time.Second)),
		}},
		{name: "more hosts than machines: evenly", replicas: 4, add: "a d b e", pods: []corev1.Pod{
			testPod("a", on("m1")), testPod("b", on("m1")), testPod("c", on("m1")),
			testPod("d", on("m2")), testPod("e", on("m2")), testPod("f", on("m2")),
		}},
		{name: "one of two hosts on a machine moves to a machine without one", replicas: 2, add: "c", remove: "b",
			pods: []corev1.Pod{testPod("a", on("m1"), hosting), testPod("b", on("m1"), hosting), testPod("c", on("m2"))}},
		{name: "not to a pod that has just become ready", replicas: 2, pods: []corev1.Pod{
			testPod("a", on("m1"), hosting), testPod("b", on("m1"), hosting), testPod("c", on("m2"), readyFor(time.Minute)),
		}},
		{name: "but where the host is hardly older", replicas: 2, add: "c", remove: "b", pods: []corev1.Pod{
			testPod("a", on("m1"), hosting, readyFor(20*time.Second)), testPod("b", on("m1"), hosting, readyFor(20*time.Second)),
			testPod("c", on("m2"), readyFor(10*time.Second)),
		}},
		{name: "not while it is twice as old", replicas: 2, pods: []corev1.Pod{
			testPod("a", on("m1"), hosting, readyFor(20*time.Second)), testPod("b", on("m1"), hosting, readyFor(20*time.Second)),
			testPod("c", on("m2"), readyFor(9*time.Second)),
		}},
		{name: "nor while it restarts", replicas: 2, pods: []corev1.Pod{
			testPod("a", on("m1"), hosting, unreadyFor(time.Second)), testPod("b", on("m1"), hosting, unreadyFor(time.Second)),
			testPod("c", on("m2"), readyFor(time.Minute)),
		}},
		{name: "nor to one that is not", replicas: 2, pods: []corev1.Pod{
			testPod("a", on("m1"), hosting), testPod("b", on("m1"), hosting), testPod("c", on("m2"), unreadyFor(time.Minute)),
		}},
		{name: "but a free place goes there at once", replicas: 2, add: "c", pods: []corev1.Pod{
			testPod("a", on("m1"), hosting), testPod("b", on("m1")), testPod("c", on("m2"), readyFor(time.Second)),
		}},
		{name: "a single host has no reason to move", replicas: 1, pods: []corev1.Pod{
			testPod("old", on("m2"), aged(2*time.Hour)), testPod("a", on("m1"), hosting), testPod("b", on("m1")),
		}},
		{name: "over zones, where machines are the same", replicas: 2, add: "a c", machines: machinesInZones("m1 east", "m2 east", "m3 west"),
			pods: []corev1.Pod{testPod("a", on("m1")), testPod("b", on("m2")), testPod("c", on("m3"))}},
		{name: "machines before zones", replicas: 3, add: "a c b", machines: machinesInZones("m1 east", "m2 east", "m3 west"),
			pods: []corev1.Pod{testPod("a", on("m1")), testPod("b", on("m2")), testPod("c", on("m3")), testPod("d", on("m3"))}},
		{name: "a zone without a host gets one of two in another", replicas: 2, add: "c", remove: "b",
			machines: machinesInZones("m1 east", "m2 east", "m3 west"),
			pods:     []corev1.Pod{testPod("a", on("m1"), hosting), testPod("b", on("m2"), hosting), testPod("c", on("m3"))}},
		{name: "zones that have one each are left alone", replicas: 3, machines: machinesInZones("m1 east", "m2 east", "m3 west", "m4 west"),
			pods: []corev1.Pod{testPod("a", on("m1"), hosting), testPod("b", on("m2"), hosting), testPod("c", on("m3"), hosting),
				testPod("old", on("m4"), aged(2*time.Hour))}},
		{name: "a machine that is drained loses its host", replicas: 1, add: "b", remove: "a", machines: drained("m1"),
			pods: []corev1.Pod{testPod("a", on("m1"), hosting), testPod("b", on("m2"), unreadyFor(time.Second))}},
		{name: "and gets none", replicas: 2, machines: drained("m2"), add: "c", pods: []corev1.Pod{
			testPod("a", on("m1"), hosting), testPod("old", on("m2"), aged(2*time.Hour)), testPod("c", on("m1"))}},
		{name: "unless there are no others", replicas: 2, machines: drained("m1", "m2"), add: "b", pods: []corev1.Pod{
			testPod("a", on("m1"), hosting), testPod("b", on("m2"))}},
		{name: "among machines that are drained hosts stay", replicas: 1, machines: drained("m1", "m2"), pods: []corev1.Pod{
			testPod("old", on("m1"), aged(2*time.Hour)), testPod("b", on("m2"), hosting)}},
		{name: "the first node that the others refuse hosts for its half of the roll", replicas: 1, add: "new", pods: []corev1.Pod{
			testPod("a", hosting), testPod("b"), testPod("new", withPeers("x"), unreadyFor(time.Second)),
		}},
		{name: "each half has its hosts", replicas: 2, add: "d", remove: "c", pods: []corev1.Pod{
			testPod("a", hosting), testPod("b", hosting, aged(2*time.Hour)), testPod("c", hosting, unreadyFor(time.Minute)),
			testPod("d", withPeers("x")), testPod("e", withPeers("x"), hosting), testPod("f", withPeers("x"), unreadyFor(time.Second)),
		}},
		{name: "machines of no known zone are as one zone", replicas: 2, pods: []corev1.Pod{
			testPod("a", on("m1"), hosting), testPod("b", on("m2"), hosting), testPod("old", on("m3"), aged(2*time.Hour)),
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			add, remove := Choose(cached(t, test.pods...), test.machines, test.replicas, noon)
			if got := names(add); got != test.add {
				t.Errorf("adds %q, want %q", got, test.add)
			}
			if got := names(remove); got != test.remove {
				t.Errorf("removes %q, want %q", got, test.remove)
			}
		})
	}
}

// TestChooseAtRandom checks invariants: a second choice changes nothing; the number of hosts and of their machines is the
// maximum; and of the healthy hosts at least one stays.
func TestChooseAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	kinds := []func(*corev1.Pod){hosting, func(pod *corev1.Pod) { hosting(pod); readyFor(10 * time.Second)(pod) }, func(pod *corev1.Pod) { hosting(pod); unreadyFor(time.Second)(pod) },
		func(pod *corev1.Pod) { hosting(pod); unreadyFor(time.Minute)(pod) }, readyFor(time.Second), readyFor(time.Hour),
		readyFor(time.Hour), unreadyFor(time.Minute), pending, terminating}
	for round := range 5000 {
		var machines []corev1.Node
		var pods []corev1.Pod
		for m := range 1 + random.IntN(6) {
			name := fmt.Sprintf("m%d", m)
			machines = append(machines, machinesInZones(fmt.Sprintf("%s z%d", name, random.IntN(3)))...)
			for g := range random.IntN(4) {
				pods = append(pods, testPod(fmt.Sprintf("%s-g%d", name, g), on(name), kinds[random.IntN(len(kinds))],
					aged(time.Duration(random.IntN(5))*time.Hour)))
			}
		}
		pods, replicas := cached(t, pods...), 1+random.IntN(5)
		could, well, serving := 0, 0, map[string]bool{}
		for i := range pods {
			if c := candidates(pods[i:i+1], nil, noon); len(c) == 1 {
				could++
				if c[0].rank() == 0 {
					well++
				}
				if c[0].rank() == 0 || c[0].mayReplace(&candidate{}) {
					serving[c[0].machine] = true
				}
			}
		}
		add, remove := Choose(pods, machines, replicas, noon)
		before := fmt.Sprintf("round %d: %d of %s: adds %q, removes %q", round, replicas, states(pods), names(add), names(remove))
		kept := well
		for _, pod := range remove {
			if c := candidates([]corev1.Pod{*pod}, nil, noon); len(c) == 1 && c[0].rank() == 0 {
				kept--
			}
			delete(pod.Labels, v1alpha1.LabelDiscovery)
		}
		for _, pod := range add {
			hosting(pod)
		}
		hosts, on := 0, map[string]bool{}
		for i := range pods {
			if IsHost(&pods[i]) && CanHost(&pods[i]) {
				hosts++
				on[pods[i].Spec.NodeName] = true
			}
		}
		if hosts != min(replicas, could) || len(on) < min(replicas, len(serving)) || well > 0 && kept == 0 {
			t.Fatalf("%s: %d hosts on %d machines, %d of %d that were well", before, hosts, len(on), kept, well)
		}
		if add, remove := Choose(pods, machines, replicas, noon); len(add)+len(remove) != 0 {
			t.Fatalf("%s; a second look adds %q and removes %q", before, names(add), names(remove))
		}
	}
}

// startMachines starts the machines of a cluster with two groups one per second, and chooses hosts every second. It returns the
// seconds at which hosts were placed or moved, and the final pods.
func startMachines(t *testing.T, machines, seconds int, also func(second int, pods []corev1.Pod)) (moves []int, pods []corev1.Pod) {
	t.Helper()
	var all []corev1.Node
	for m := range machines {
		all = append(all, machinesInZones(fmt.Sprintf("m%d z%d", m, m%3))...)
	}
	for second := range seconds {
		now := noon.Add(time.Duration(second) * time.Second)
		if second < machines {
			for g := range 2 {
				pods = append(pods, testPod(fmt.Sprintf("g%d-m%d", g, second), on(fmt.Sprintf("m%d", second)), func(pod *corev1.Pod) {
					pod.CreationTimestamp = metav1.NewTime(now)
					pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now)
				}))
			}
		}
		also(second, pods)
		add, remove := Choose(pods, all, 3, now)
		for _, pod := range add {
			hosting(pod)
		}
		for _, pod := range remove {
			delete(pod.Labels, v1alpha1.LabelDiscovery)
		}
		if len(add)+len(remove) > 0 {
			moves = append(moves, second)
		}
	}
	return moves, pods
}

// TestHostsAreSpreadWhileTheClusterComesUp checks that hosts are spread within seconds, so that no move is left for
// later.
func TestHostsAreSpreadWhileTheClusterComesUp(t *testing.T) {
	moves, pods := startMachines(t, 30, 600, func(int, []corev1.Pod) {})
	if len(moves) > 4 || moves[len(moves)-1] > 5 {
		t.Errorf("hosts moved at seconds %v; all zones have nodes after 3 s", moves)
	}
	on := map[string]bool{}
	for i := range pods {
		if IsHost(&pods[i]) {
			on[pods[i].Spec.NodeName] = true
		}
	}
	if len(on) != 3 {
		t.Errorf("hosts are on machines %v", on)
	}
}

// TestHostsAreNotMovedForAPodThatComesAndGoes: moves become rare for a pod that repeatedly starts and stops as the only one of its
// zone.
func TestHostsAreNotMovedForAPodThatComesAndGoes(t *testing.T) {
	const period = 80
	moves, _ := startMachines(t, 3, 3600, func(second int, pods []corev1.Pod) {
		for i := range pods {
			if pods[i].Spec.NodeName == "m2" && second%(period/2) == 0 {
				pods[i].Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(time.Duration(second) * time.Second))
				pods[i].Status.Conditions[0].Status = corev1.ConditionTrue
				if second/(period/2)%2 == 1 {
					pods[i].Status.Conditions[0].Status = corev1.ConditionFalse
				}
			}
		}
	})
	if len(moves) > 8 || moves[len(moves)-1] > 5*period {
		t.Errorf("hosts moved at seconds %v", moves)
	}
}

func on(machine string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = machine }
}

func readyFor(since time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-since))
	}
}

// machinesInZones returns machines, each given as its name and its zone.
func machinesInZones(texts ...string) []corev1.Node {
	var machines []corev1.Node
	for _, text := range texts {
		name, zone, _ := strings.Cut(text, " ")
		machines = append(machines, corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}})
	}
	return machines
}

func drained(names ...string) []corev1.Node {
	machines := machinesInZones(names...)
	for i := range machines {
		machines[i].Labels[v1alpha1.LabelDrain] = v1alpha1.DrainNow
	}
	return machines
}

// states formats pods for a message.
func states(pods []corev1.Pod) string {
	var list []string
	for i := range pods {
		list = append(list, pods[i].Name)
		for _, c := range candidates(pods[i:i+1], nil, noon) {
			list = append(list, fmt.Sprintf("host=%t lost=%t ready=%t since=%s", c.host, c.lost, c.ready, c.since))
		}
	}
	return strings.Join(list, "; ")
}

func names(pods []*corev1.Pod) string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	return strings.Join(list, " ")
}
