// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// The output of commands is compared with testdata/<case>.txt. After an intended change, write the files and read the diff:
//
//	go test ./kubectl -update && git diff
var update = flag.Bool("update", false, "write testdata anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: write it with -update", err)
	}
	if got != string(want) {
		t.Errorf("the output differs from %s; got:\n%s", file, got)
	}
}

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// fakePods answers for pods. Each request takes the next of its answers, and repeats the last one.
type fakePods struct {
	mu sync.Mutex
	// answers has the keys "POD PATH", "POD logs CONTAINER" and "POD exec WORD..." (the key may be a beginning of the
	// command).
	answers map[string][]any
	asked   []string
	// end is what the user does who ends a command; see userEnds.
	end context.CancelFunc
}

func (f *fakePods) next(key string) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, key)
	for known, answers := range f.answers {
		if key == known || strings.HasPrefix(key, known+" ") {
			if len(answers) > 1 {
				f.answers[known] = answers[1:]
			}
			if err, failed := answers[0].(error); failed {
				return nil, err
			}
			return answers[0], nil
		}
	}
	return nil, fmt.Errorf("%s: connection refused", key)
}

func (f *fakePods) get(_ context.Context, pod *corev1.Pod, port int32, path string) ([]byte, error) {
	if port != 31997 {
		return nil, fmt.Errorf("port %d is not the one of monitoring", port)
	}
	text, err := f.next(pod.Name + " " + path)
	if err != nil {
		return nil, err
	}
	return []byte(addressOf.ReplaceAllString(text.(string), "")), nil
}

// addressOf matches what a node tells only to clients on its own machine.
var addressOf = regexp.MustCompile(`"address": "[^"]*", `)

func (f *fakePods) logs(_ context.Context, pod *corev1.Pod, options corev1.PodLogOptions) ([]byte, error) {
	if options.TailLines == nil || options.LimitBytes == nil {
		return nil, fmt.Errorf("the log of %s is not bounded", pod.Name)
	}
	what := " logs "
	if options.Previous {
		what = " previous "
	}
	text, err := f.next(pod.Name + what + options.Container)
	if err != nil {
		return nil, err
	}
	return []byte(text.(string)), nil
}

func (f *fakePods) exec(_ context.Context, pod *corev1.Pod, container string, command ...string) (execResult, error) {
	if container != plan.ContainerName {
		return execResult{}, fmt.Errorf("container %s is not the member's", container)
	}
	result, err := f.next(pod.Name + " exec " + strings.Join(command, " "))
	if err != nil {
		return execResult{}, err
	}
	return result.(execResult), nil
}

// outcome is the result of a command line.
type outcome struct {
	status         int
	stdout, stderr string
	asked          []string
}

// runCommand runs a command line against objects and pods.
func runCommand(t *testing.T, pods *fakePods, objects []client.Object, args ...string) outcome {
	t.Helper()
	return runCommandOn(t, pods, store(t, objects...), nil, args...)
}

// store returns a client with the objects.
func store(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, fieldMachine, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
}

// runCommandOn runs a command line against a store. It calls onSleep whenever the command sleeps.
func runCommandOn(t *testing.T, pods *fakePods, objects client.Client, onSleep func(round int), args ...string) outcome {
	t.Helper()
	return runCommandUntil(t.Context(), t, pods, objects, onSleep, args...)
}

// runCommandUntil runs a command line until it ends or ctx is done.
func runCommandUntil(
	ctx context.Context, t *testing.T, pods *fakePods, objects client.Client, onSleep func(round int), args ...string,
) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := &plugin{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr},
		version:   "0.1.0", flags: genericclioptions.NewConfigFlags(false),
	}
	at, round := noon, 0
	p.now = func() time.Time { return at }
	p.sleep = func(ctx context.Context, d time.Duration) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		at = at.Add(d)
		round++
		if onSleep != nil {
			onSleep(round)
		}
		return nil
	}
	p.connect = func() (*access, error) {
		return &access{
			Reader: objects, patch: objects.Patch, create: objects.Create, remove: objects.Delete, pods: pods, namespace: "inference",
		}, nil
	}
	status := p.run(ctx, args)
	return outcome{status, stdout.String(), stderr.String(), pods.asked}
}

// cluster returns a cluster that serves, after the changes.
func cluster(name string, change ...func(*v1alpha1.PeerCacheCluster)) *v1alpha1.PeerCacheCluster {
	c := &v1alpha1.PeerCacheCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: "peercache.io/v1alpha1", Kind: "PeerCacheCluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "inference", Name: name, Generation: 3},
		Spec: v1alpha1.PeerCacheClusterSpec{
			Mode: v1alpha1.ModeApply, Transport: v1alpha1.TransportAuto, Layout: v1alpha1.LayoutPerNUMA,
			Memory:     v1alpha1.MemorySpec{Pool: resource.MustParse("64Gi")},
			Resources:  v1alpha1.ResourcesSpec{MemoryOverhead: resource.MustParse("512Mi")},
			Monitoring: v1alpha1.MonitoringSpec{Port: 31997},
		},
		Status: v1alpha1.PeerCacheClusterStatus{
			ObservedGeneration: 3, DesiredMembers: 3, ReadyMembers: 3, UpdatedMembers: 3, ActiveMembers: 3,
			Capacity: resource.MustParse("192Gi"), Image: "ghcr.io/peercache/peercache/dataplane:0.1.0",
			Groups: []v1alpha1.GroupStatus{{
				Name: "default", Desired: 3, Ready: 3, Updated: 3, Rails: v1alpha1.RailsStatus{Desired: 6, Ready: 5, Down: 1},
			}},
			Conditions: []metav1.Condition{
				is("ConfigAccepted", "True", "Accepted", "the spec is in effect"),
				is("DevicesAvailable", "True", "AllThere", "every machine offers what its members request"),
				is("Progressing", "False", "Settled", "no member is being started or replaced"),
				is("Degraded", "False", "NoFaults", "no member is broken"),
				is("InjectionReady", "True", "WebhookReady", "SGLang pods are connected"),
				is("Available", "True", "Serving", "each of 1 groups has a ready member"),
				is("Ready", "True", "AllMembersReady", "3/3 members serve"),
			},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func is(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(noon.Add(-90 * time.Minute)),
	}
}

func set(conditions ...metav1.Condition) func(*v1alpha1.PeerCacheCluster) {
	return func(c *v1alpha1.PeerCacheCluster) {
		for _, wanted := range conditions {
			i := slices.IndexFunc(c.Status.Conditions, func(old metav1.Condition) bool { return old.Type == wanted.Type })
			if i < 0 {
				c.Status.Conditions = append(c.Status.Conditions, wanted)
			} else {
				c.Status.Conditions[i] = wanted
			}
		}
	}
}

// nodePod returns the ready pod of cluster kv on a machine, after the changes.
func nodePod(machine string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "inference", Name: "kv-default-" + strings.TrimPrefix(machine, "node-"),
			Labels: map[string]string{
				v1alpha1.LabelCluster: "kv", v1alpha1.LabelGroup: "default", plan.LabelComponent: plan.ComponentNode,
			},
		},
		Spec: corev1.PodSpec{
			NodeName: machine,
			Containers: []corev1.Container{{
				Name: plan.ContainerName, Image: "ghcr.io/peercache/peercache/dataplane:0.1.0",
				Args: []string{"--config=/etc/peercache/peercached.toml"},
				Env:  []corev1.EnvVar{{Name: "PEERCACHE_GROUP", Value: "default"}},
			}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: plan.ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func host(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelDiscovery] = v1alpha1.DiscoveryHost }

// crashing makes a pod one whose container crashes.
func crashing(pod *corev1.Pod) {
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Status.ContainerStatuses[0].RestartCount = 7
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
	}
}

// status returns the /v1/status of a node, as peercached writes it.
func status(machine, members, rails, counted string) string {
	kind := "tcp"
	if rails != "" {
		kind = "rdma"
	}
	return fmt.Sprintf(`{
  "node": {"id": "%[1]s.default", "incarnation": 1795289596184727924, "version": "0.1.0", "group": "default", "state": "active",
           "address": "10.0.0.1:31998", "ready": true, "reason": "", "uptime_seconds": 2.8},
  "ring_epoch": 4, "ring_fingerprint": "dbc08abdfaaae588",
  "members": [%[2]s],
  "transport": {"kind": %[5]q, "reason": "as the spec says", "rails": [%[3]s], "links": 2},
  "pool": {"capacity_bytes": 68719476736, "used_bytes": 17179869184, "pages": 131072},
  "engines": [{"name": "sglang-0", "uid": 0}],
  "fleet": {"warming": false, "members": 3, "engines": 2, "recent_looked_up": 1000, "recent_delivered": 870},
  %[4]s
}`, machine, members, rails, cmp.Or(counted, `"counters": {}`), kind)
}

func memberJSON(machine, state, breaker string, reachable bool) string {
	return fmt.Sprintf(`{"id": "%s.default", "incarnation": 7, "state": %q, "address": "10.0.0.%d:31998", "http_port": 31997,`+
		`"capacity_bytes": 68719476736, "breaker": %q, "reachable": %t}`, machine, state, machine[len(machine)-1]-'a'+1, breaker, reachable)
}

// healthy adds a member's health to its JSON. numbers are rails, rails up, pages looked up and pages delivered.
func healthy(member string, age float64, numa, railDown string, numbers ...int) string {
	return fmt.Sprintf(`%s, "health": {"age_seconds": %g, "group": "default", "rails": %d, "rails_up": %d, "rail_down": %q, "numa": %q,`+
		`"engines": 1, "recent_looked_up": %d, "recent_delivered": %d, "pool_used_bytes": 17179869184}}`,
		strings.TrimSuffix(member, "}"), age, numbers[0], numbers[1], railDown, numa, numbers[2], numbers[3])
}
