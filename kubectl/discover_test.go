// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/machine"
	"github.com/peercache/peercache/operator/machine/machinetest"
	"github.com/peercache/peercache/operator/plan"
)

// simulated writes sys and proc of two like machines into a folder for each.
func simulated(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for i, name := range []string{"gpu-a", "gpu-b"} {
		machinetest.Unpack(t, "../operator/machine/testdata/hgx-h100.txt", filepath.Join(folder, name), byte(11+i))
	}
	return folder
}

// eightRails is what discover writes for simulated machines. A sample, because it is what users want to see before they look at
// their own.
const eightRails = "../../config/samples/rdma-eight-rails.yaml"

func TestDiscoverFromFolders(t *testing.T) {
	folder := simulated(t)
	for file, args := range map[string][]string{
		eightRails:          {"--name", "eight-rails"},
		"discover-you.yaml": {"--networks", "you", "-n", "inference", "--only", "ens11np0,ens15np0"},
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			got := runCommand(t, &fakePods{}, nil, append([]string{"discover", "--from", folder}, args...)...)
			if got.status != 0 || got.stderr != "" {
				t.Errorf("status %d, stderr %q", got.status, got.stderr)
			}
			golden(t, file, got.stdout)
			planned(t, got.stdout)
		})
	}
}

func TestDiscoverRefusesFlags(t *testing.T) {
	empty := t.TempDir()
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"networks":   {[]string{"--networks", "me"}, "write operator or you"},
		"selector":   {[]string{"--selector", "a in (b)"}, "write for example peercache.io/node=true"},
		"attachment": {[]string{"--attachment", "HostNetwork"}, "write SharedDevicePlugin, SRIOV or DRA"},
		"DRA":        {[]string{"--attachment", "DRA", "--from", simulated(t)}, "leave out --from"},
		"SRIOV": {[]string{"--attachment", "SRIOV", "--from", simulated(t)},
			"gpu-a: ens11np0 (mlx5_0) can have no virtual functions: turn SR-IOV on"},
		"no folder": {[]string{"--from", empty}, "no machine is there: name a folder with sys and proc"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runCommand(t, &fakePods{}, nil, append([]string{"discover"}, test.args...)...)
			if got.status != 1 || !strings.Contains(got.stderr, test.says) {
				t.Errorf("%+v, want %q", got, test.says)
			}
		})
	}
}

// operatorDeployment is the operator as the chart installs it from a registry with credentials.
func operatorDeployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "peercache-system", Name: "peercache-operator",
			Labels: map[string]string{plan.LabelName: plan.AppName, plan.LabelComponent: "operator"},
		},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
			Containers:       []corev1.Container{{Name: "operator", Image: "registry.example.com/operator:0.1.0"}},
		}}},
	}
}

// machines is a store with three machines, two of them labelled; see podsOn.
func machines(t *testing.T, phase corev1.PodPhase, change func(*corev1.Pod)) client.WithWatch {
	t.Helper()
	const ours = "peercache.io/node=true"
	objects := store(t, operatorDeployment(), labelledNode("gpu-a", ours), labelledNode("gpu-b", ours), labelledNode("other"))
	return podsOn(objects, phase, change)
}

// podsOn is a store whose pods end in the phase as soon as they are made. One has the name of its machine.
func podsOn(objects client.Client, phase corev1.PodPhase, change func(*corev1.Pod)) client.WithWatch {
	return interceptor.NewClient(objects.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			pod := object.(*corev1.Pod)
			pod.Name, pod.Status.Phase = "on-"+pod.Spec.NodeName, phase
			if change != nil {
				change(pod)
			}
			return c.Create(ctx, object, options...)
		},
	})
}

func described(t *testing.T) *fakePods {
	t.Helper()
	folder, pods := simulated(t), &fakePods{answers: map[string][]any{}}
	for _, name := range []string{"gpu-a", "gpu-b"} {
		var text bytes.Buffer
		if err := machine.Print(&text, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
		pods.answers["on-"+name+" logs machine"] = []any{text.String()}
	}
	return pods
}

func podsLeft(t *testing.T, c client.Client) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestDiscoverByPods(t *testing.T) {
	var seen []corev1.Pod
	objects := machines(t, corev1.PodSucceeded, func(pod *corev1.Pod) { seen = append(seen, *pod.DeepCopy()) })
	got := runCommandOn(t, described(t), objects, nil, "discover", "--name", "eight-rails")
	if got.status != 0 || got.stderr != "" {
		t.Fatalf("status %d, stderr %q", got.status, got.stderr)
	}
	golden(t, eightRails, got.stdout)
	if len(seen) != 2 {
		t.Fatalf("%d pods were made, want one on each labelled machine", len(seen))
	}
	pod := seen[0]
	if pod.Namespace != "peercache-system" || pod.Spec.Containers[0].Image != "registry.example.com/operator:0.1.0" ||
		pod.Spec.ImagePullSecrets[0].Name != "pull" || !pod.Spec.HostNetwork || *pod.Spec.AutomountServiceAccountToken {
		t.Errorf("the pod is %+v", pod)
	}
	if left := podsLeft(t, objects); len(left) != 0 {
		t.Errorf("%d pods are left", len(left))
	}
}

func TestDiscoverFailures(t *testing.T) {
	waits := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "machine", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
		}}}
	}
	for name, test := range map[string]struct {
		phase  corev1.PodPhase
		change func(*corev1.Pod)
		log    string
		args   []string
		says   string
	}{
		"no machines": {corev1.PodSucceeded, nil, "", []string{"-l", "a=b"}, "no Kubernetes node has the labels a=b: kubectl label node"},
		"an image": {corev1.PodPending, waits, "", nil,
			"pods have not ended after 2m0s: gpu-a waits (ImagePullBackOff: no such image); gpu-b waits"},
		"a pod that fails": {corev1.PodFailed, nil, "open /sys: permission denied", nil, "gpu-a: the pod failed: open /sys: permission denied"},
		"another image":    {corev1.PodSucceeded, nil, "hello", nil, "gpu-a: reading the output of its pod"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := machines(t, test.phase, test.change)
			pods := &fakePods{answers: map[string][]any{"on-gpu-a logs machine": {test.log}, "on-gpu-b logs machine": {test.log}}}
			got := runCommandOn(t, pods, objects, nil, append([]string{"discover"}, test.args...)...)
			if got.status != 1 || !strings.Contains(got.stderr, test.says) {
				t.Errorf("status %d, stderr %q, want %q", got.status, got.stderr, test.says)
			}
			if left := podsLeft(t, objects); len(left) != 0 {
				t.Errorf("%d pods are left", len(left))
			}
		})
	}
}

func TestDiscoverWithoutRights(t *testing.T) {
	forbidden := func(what, why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: what}, "", errors.New(why))
	}
	for name, test := range map[string]struct {
		funcs interceptor.Funcs
		says  []string
	}{
		"pods": {interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return forbidden("pods", "no")
		}}, []string{"making a pod on gpu-a in namespace peercache-system", "ask for the permissions that docs/kubectl.md lists"}},
		"a namespace": {interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return forbidden("pods", `violates PodSecurity "restricted:latest"`)
		}}, []string{"takes the level privileged", "--from /"}},
		"the operator": {interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if _, is := list.(*appsv1.DeploymentList); is {
				return forbidden("deployments", "no")
			}
			return c.List(ctx, list, o...)
		}}, []string{"looking for the operator", "name the operator's image by --image"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := interceptor.NewClient(machines(t, corev1.PodSucceeded, nil), test.funcs)
			got := runCommandOn(t, &fakePods{}, objects, nil, "discover")
			for _, says := range test.says {
				if got.status != 1 || !strings.Contains(got.stderr, says) {
					t.Errorf("status %d, stderr %q, want %q", got.status, got.stderr, says)
				}
			}
		})
	}
}

// TestDiscoverOtherMachines checks that manifests for other machines are those of clusters, and plans them.
func TestDiscoverOtherMachines(t *testing.T) {
	const fixture = "../operator/machine/testdata/hgx-h100.txt"
	text, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		machine func(line string) (string, bool) // and whether it has the line
		is      func(c *v1alpha1.PeerCacheCluster, desired *plan.Desired) bool
	}{
		"InfiniBand": {func(line string) (string, bool) {
			return strings.Replace(line, "link_layer = Ethernet", "link_layer = InfiniBand", 1), true
		}, func(c *v1alpha1.PeerCacheCluster, desired *plan.Desired) bool {
			return len(desired.Groups) == 2 && len(desired.Networks()) == 0 && c.Spec.RDMA.TrafficClass == nil
		}},
		"no router": {func(line string) (string, bool) { return line, !strings.Contains(line, "\t0000FFFF\t") },
			func(c *v1alpha1.PeerCacheCluster, desired *plan.Desired) bool {
				return c.Spec.Layout == v1alpha1.LayoutPerNode && len(desired.Groups) == 1 && len(desired.Networks()) == 8
			}},
		"no huge pages": {func(line string) (string, bool) { return line, !strings.Contains(line, "nr_hugepages") },
			func(c *v1alpha1.PeerCacheCluster, _ *plan.Desired) bool {
				return c.Spec.Memory.HugePages == v1alpha1.HugePagesNone && c.Spec.Memory.Pool.String() == "64Gi"
			}},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for line := range strings.Lines(string(text)) {
				if line, has := test.machine(line); has {
					lines = append(lines, line)
				}
			}
			list, folder := filepath.Join(t.TempDir(), "list"), t.TempDir()
			if err := os.WriteFile(list, []byte(strings.Join(lines, "")), 0o600); err != nil {
				t.Fatal(err)
			}
			machinetest.Unpack(t, list, folder, 11)
			got := runCommand(t, &fakePods{}, nil, "discover", "--from", folder)
			if got.status != 0 {
				t.Fatal(got.stderr)
			}
			c, err := parseCluster([]byte(got.stdout))
			if err != nil {
				t.Fatal(err)
			}
			desired, err := plan.For(c, plan.Facts{DataplaneImage: "dataplane"})
			if err != nil || !test.is(c, desired) {
				t.Errorf("%v, the manifest is\n%s", err, got.stdout)
			}
		})
	}
}
