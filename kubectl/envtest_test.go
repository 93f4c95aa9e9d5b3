// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package kubectl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/plan"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// kubeconfig writes a kubeconfig with two contexts: the administrator in a namespace, and an API server that does not
// exist.
func kubeconfig(t *testing.T, namespace string) string {
	t.Helper()
	admin := testenv.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters["here"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.Clusters["gone"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData}
	config.Contexts["here"] = &clientcmdapi.Context{Cluster: "here", AuthInfo: "admin", Namespace: namespace}
	config.Contexts["gone"] = &clientcmdapi.Context{Cluster: "gone", AuthInfo: "admin"}
	config.CurrentContext = "here"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// runReal runs a whole command line, with options of kubectl.
func runReal(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := Run(t.Context(), args, "0.1.0", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	return outcome{status: status, stdout: stdout.String(), stderr: stderr.String()}
}

func TestOptionsOfKubectl(t *testing.T) {
	c, namespace, other := testenv.Client(t), testenv.Namespace(t), testenv.Namespace(t)
	for _, where := range []string{namespace, other} {
		kv := cluster("kv", func(c *v1alpha1.PeerCacheCluster) {
			c.Namespace, c.Spec = where, v1alpha1.PeerCacheClusterSpec{Memory: c.Spec.Memory}
		})
		seen := kv.Status
		if err := c.Create(t.Context(), kv); err != nil {
			t.Fatal(err)
		}
		kv.Status = seen
		kv.Status.ObservedGeneration = kv.Generation
		if err := c.Status().Update(t.Context(), kv); err != nil {
			t.Fatal(err)
		}
	}
	file := kubeconfig(t, namespace)
	for name, test := range map[string]struct {
		args   []string
		status int
		out    string
		err    string
	}{
		"namespace of the context": {[]string{"status"}, 0, namespace + "/kv: ready, 3 of 3 members serve", ""},
		"another namespace":        {[]string{"status", "kv", "-n", other}, 0, other + "/kv: ready", ""},
		"no namespace":             {[]string{"status", "-n", "nowhere"}, 1, "", "namespace nowhere has no PeerCacheCluster"},
		"all":                      {[]string{"status", "-A"}, 0, other + "/kv: ready", ""},
		"another context":          {[]string{"status", "--context", "gone"}, 1, "", "check that the API server is up, --context and --kubeconfig"},
		"no such context":          {[]string{"status", "--context", "nope"}, 1, "", "check --kubeconfig, --context and KUBECONFIG"},
		"no rights": {[]string{"status", "--as", "nobody"}, 1, "",
			`cannot list resource "peercacheclusters"`},
		"what to do about it": {[]string{"status", "--as", "nobody"}, 1, "", "ask for the permissions that docs/kubectl.md lists"},
		"no pods":             {[]string{"members"}, 1, "", "has no pods: see kubectl peercache status kv -n " + namespace},
		"doctor without pods": {[]string{"doctor"}, 0, "nothing is wrong: checked the conditions and 0 members", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := runReal(t, append(test.args, "--kubeconfig", file, "--cache-dir", t.TempDir())...)
			if got.status != test.status || !strings.Contains(got.stdout, test.out) || !strings.Contains(got.stderr, test.err) {
				t.Errorf("%+v, want %+v", got, test)
			}
		})
	}
}

// TestDefaultsMatchAPIServer checks that inject --cluster-file uses the cluster that the API server would have stored.
func TestDefaultsMatchAPIServer(t *testing.T) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	files, err := filepath.Glob("../config/samples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("found samples %q, %v", files, err)
	}
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			if !bytes.Contains(document, []byte("\nkind: PeerCacheCluster\n")) {
				continue
			}
			offline, err := parseCluster(document)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			stored := &v1alpha1.PeerCacheCluster{}
			key := client.ObjectKey{Namespace: namespace, Name: offline.Name}
			offline.Namespace = namespace
			create(t, c, document, namespace)
			if err := c.Get(t.Context(), key, stored); err != nil {
				t.Fatal(err)
			}
			seen++
			if !equality.Semantic.DeepEqual(offline.Spec, stored.Spec) {
				t.Errorf("%s: offline\n%+v, stored\n%+v", file, offline.Spec, stored.Spec)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d samples were compared", seen)
	}
}

// create stores a manifest as it is written. Go types could add fields to it.
func create(t *testing.T, c client.Client, manifest []byte, namespace string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetNamespace(namespace)
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// TestDiscoveredIsAccepted gives what discover writes to the API server, and plans it.
func TestDiscoveredIsAccepted(t *testing.T) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	text, err := os.ReadFile(filepath.Join("testdata", eightRails))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetNamespace(namespace)
	if err := c.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}
	cluster := &v1alpha1.PeerCacheCluster{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), cluster); err != nil {
		t.Fatal(err)
	}
	desired, err := plan.For(cluster, plan.Facts{DataplaneImage: "dataplane"})
	if err != nil {
		t.Fatal(err)
	}
	if len(desired.Groups) != 2 || len(desired.Groups[0].Rails) != 4 || len(desired.Networks()) != 8 {
		t.Errorf("groups %+v, networks %v; want two groups of four rails, eight networks", desired.Groups, desired.Networks())
	}
}

// TestDiscoveredDocumentsAreAccepted gives the API server all else that discover writes, but what others define.
func TestDiscoveredDocumentsAreAccepted(t *testing.T) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	files, err := filepath.Glob("testdata/discover-*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(text, []byte("---\n")) {
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch kind := object.GetKind(); {
			case kind == "NetworkAttachmentDefinition" || testenv.Unserved(t, object):
				continue
			case kind == "DeviceClass": // belongs to no namespace
			default:
				object.SetNamespace(namespace)
			}
			if err := c.Create(t.Context(), object, client.FieldValidation("Strict"), client.DryRunAll); err != nil {
				t.Errorf("%s: %s: %v", file, object.GetKind(), err)
			}
		}
	}
}

// TestDiscoverPodsAreAccepted makes the pods of discover on an API server without kubelets, which takes them, and on which they
// never end.
func TestDiscoverPodsAreAccepted(t *testing.T) {
	c, namespace := testenv.Client(t), testenv.Namespace(t)
	file := kubeconfig(t, namespace)
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"pods that do not end": {nil, "pods have not ended after 10ms: gpu-a is Pending; gpu-b is Pending"},
		"no rights":            {[]string{"--as", "nobody"}, "making a pod on gpu-a in namespace " + namespace},
		"no operator":          {[]string{"--image", ""}, "the operator is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"discover", "gpu-a", "gpu-b", "--image", "operator", "--timeout", "10ms", "--kubeconfig", file}, test.args...)
			if got := runReal(t, args...); got.status != 1 || !strings.Contains(got.stderr, test.says) || strings.Contains(got.stderr, "stays") {
				t.Errorf("%+v, want %q", got, test.says)
			}
			var left corev1.PodList
			if err := c.List(t.Context(), &left, client.InNamespace(namespace)); err != nil || len(left.Items) != 0 {
				t.Errorf("%d pods are left, %v", len(left.Items), err)
			}
		})
	}
}
