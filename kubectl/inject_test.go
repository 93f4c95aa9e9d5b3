// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
)

func TestInjectOffline(t *testing.T) {
	args := []string{"inject", "--dry-run", "-f", "testdata/engines.yaml", "--cluster-file", "testdata/cluster.yaml"}
	got := runCommand(t, &fakePods{}, nil, args...)
	if got.status != 0 {
		t.Fatalf("%+v", got)
	}
	for _, want := range []string{
		"deployment/decode: would be connected\n",
		"--- deployment/decode\n+++ deployment/decode (injected)\n",
		"\n+    - --hicache-storage-backend\n",
		"\n+    peercache.io/injected: kv\n",
		"\nadvice: container \"engine\" leaves the host memory of HiCache to SGLang: at its start all ranks take up to ",
		"leaderworkerset/big leaderTemplate: would be left alone\nreason: ",
		"leaderworkerset/big workerTemplate: would be left alone\nreason: the pod has no label peercache.io/inject",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the output lacks %q:\n%s", want, got.stdout)
		}
	}
	for line := range strings.Lines(got.stdout) {
		if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---") {
			t.Errorf("something of the user's would be lost: %s", line)
		}
	}
	if strings.Contains(got.stdout, "service/decode") || strings.Contains(got.stdout, "creationTimestamp") {
		t.Errorf("the output has what nobody asked about:\n%s", got.stdout)
	}
}

// TestInjectRecipes asks about the manifests that docs/recipes.md tells people to copy.
func TestInjectRecipes(t *testing.T) {
	recipes := map[string]int{
		"stateful-set.yaml": 1, "leader-worker-set.yaml": 2, "role-based-group.yaml": 2, "kserve-inference-service.yaml": 1,
		"kserve-llm-inference-service.yaml": 2, "kueue.yaml": 1,
	}
	files, err := filepath.Glob("../docs/samples/*.yaml")
	if err != nil || len(files) != len(recipes)+1 { // and the values of llm-d, which are no manifest
		t.Errorf("docs/samples has %q, and this test %d of them (error %v)", files, len(recipes), err)
	}
	for file, connected := range recipes {
		got := runCommand(t, &fakePods{}, nil,
			"inject", "--dry-run", "-f", "../docs/samples/"+file, "--cluster-file", "testdata/cluster.yaml")
		if found := strings.Count(got.stdout, ": would be connected\n"); got.status != 0 || found != connected {
			t.Errorf("%s: %d pods would be connected, want %d: %+v", file, found, connected, got)
		}
	}
}

// TestInjectOfflineOtherNamespace checks a cluster without a selector: which namespaces it serves is known without an API
// server.
func TestInjectOfflineOtherNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	text := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: elsewhere\n  labels: {peercache.io/inject: kv}\n" +
		"  annotations: {peercache.io/cluster-namespace: inference}\n" +
		"spec: {containers: [{name: e, image: i, command: [python3, -m, sglang.launch_server]}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := runCommand(t, &fakePods{}, nil, "inject", "--dry-run", "-f", file, "--cluster-file", "testdata/cluster.yaml")
	if want := "PeerCacheCluster inference/kv does not exist, or serves no pods of namespace elsewhere"; got.status != 0 ||
		!strings.Contains(got.stdout, want) {
		t.Errorf("%+v, want %q", got, want)
	}
}

// TestInjectMatchesWebhook checks that the pod is the result of the webhook: injecting it again changes nothing.
func TestInjectMatchesWebhook(t *testing.T) {
	stored, err := parseCluster([]byte("kind: PeerCacheCluster\nmetadata: {name: kv, namespace: inference}\nspec: {memory: {pool: 64Gi}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range [][]string{{"--cluster-file", "testdata/cluster.yaml"}, nil} {
		args := append([]string{"inject", "--dry-run", "-o", "json", "-f", "testdata/engines.yaml"}, source...)
		got := runCommand(t, &fakePods{}, []client.Object{stored}, args...)
		var document struct {
			Pods []struct {
				Name     string
				Injected bool
				Diff     string
				Pod      *corev1.Pod
			}
		}
		if err := json.Unmarshal([]byte(got.stdout), &document); err != nil || len(document.Pods) != 3 {
			t.Fatalf("%v: %+v", err, got)
		}
		decode := document.Pods[0]
		if !decode.Injected || decode.Diff == "" || document.Pods[1].Injected || document.Pods[2].Injected {
			t.Errorf("%+v", document)
		}
		again := inject.Inject(decode.Pod, inject.FactsFor(stored, "inference", injectFlags{clientImage: "ghcr.io/peercache/peercache/client:0.1.0"}.options()))
		before, _ := json.Marshal(decode.Pod)
		after, _ := json.Marshal(again.Pod)
		if string(before) != string(after) {
			t.Errorf("injecting again changes\n%s to\n%s", before, after)
		}
	}
}

func TestInjectAsksTheAPI(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	pod := func(name string) []string {
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {peercache.io/inject: " + name + "}"
		if name == "selective" {
			text += ", annotations: {peercache.io/cluster-namespace: caches}"
		}
		text += "}\nspec:\n" +
			"  containers: [{name: e, image: i, command: [python3, -m, sglang.launch_server]}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"inject", "--dry-run", "-f", file}
	}
	selective := cluster("selective", func(c *v1alpha1.PeerCacheCluster) {
		c.Spec.Injection.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "kv"}}
	})
	selective.Namespace = "caches"
	namespace := func(labels map[string]string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "inference", Labels: labels}}
	}
	for name, test := range map[string]struct {
		objects []client.Object
		args    []string
		want    string
	}{
		"connected":       {[]client.Object{cluster("kv")}, pod("kv"), "pod/p: would be connected\n"},
		"no such cluster": {[]client.Object{cluster("kv")}, nil, "reason: PeerCacheCluster inference/vk does not exist: create it"},
		"refused": {[]client.Object{selective, namespace(nil)}, nil,
			"PeerCacheCluster caches/selective does not exist, or serves no pods of namespace inference"},
		"served": {[]client.Object{selective, namespace(map[string]string{"team": "kv"})}, nil, "pod/p: would be connected\n"},
	} {
		switch name {
		case "no such cluster":
			test.args = pod("vk")
		case "refused", "served":
			test.args = pod("selective")
		default:
			test.args = pod("kv")
		}
		if got := runCommand(t, &fakePods{}, test.objects, test.args...); got.status != 0 || !strings.Contains(got.stdout, test.want) {
			t.Errorf("%s: %+v, want %q", name, got, test.want)
		}
	}
}

func TestBadManifests(t *testing.T) {
	for text, want := range map[string]string{
		"":              "there is no Pod and no object with a pod template",
		"kind: Service": "there is no Pod and no object with a pod template",
		"{":             "document 1: ",
		"kind: Pod\nspec: {containers: [{name: a, imagee: b}]}": `unknown field "spec.containers[0].imagee": correct the field`,
	} {
		if _, err := podsOf([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
	got := runCommand(t, &fakePods{}, nil, "inject", "--dry-run", "-f", "testdata/engines.yaml", "--cluster-file", "testdata/engines.yaml")
	if got.status != 1 || !strings.Contains(got.stderr, "write one PeerCacheCluster into the file") {
		t.Errorf("%+v", got)
	}
}

// TestDefaults checks that a cluster from a file gets the defaults of the API server.
func TestDefaults(t *testing.T) {
	c, err := parseCluster([]byte("kind: PeerCacheCluster\nspec:\n  memory: {pool: 1Gi}\n  nodePools: [{name: gpu, memory: {pool: 2Gi}}]\n" +
		"  discovery: {port: 4000}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Spec
	if s.Injection.Mode != v1alpha1.InjectionNode || s.Injection.Client.Delivery != v1alpha1.ClientInitContainer ||
		s.Layout != v1alpha1.LayoutPerNUMA || s.Discovery.Port != 4000 || s.Discovery.Replicas != 3 || s.Resources.CPU.String() != "1" ||
		s.Timing.LeaseMilliseconds != 1000 || s.NodePools[0].Memory.HugePages != v1alpha1.HugePagesNone || c.Namespace != "default" {
		t.Errorf("%+v", c)
	}
	if _, err := parseCluster([]byte("kind: PeerCacheCluster\nspec: {memori: {pool: 1Gi}}")); err == nil ||
		!strings.Contains(err.Error(), `unknown field "spec.memori": correct the field`) {
		t.Errorf("a wrong field gives %v", err)
	}
}
