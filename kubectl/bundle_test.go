// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unpack returns the files of the archive by their paths below its one folder.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		name, inside := strings.CutPrefix(header.Name, "peercache-support-20260302-120000/")
		if !inside {
			t.Errorf("%s is outside of the folder", header.Name)
		}
		files[name] = string(text)
	}
}

// exampleSecrets are secrets in the places where users have them.
var exampleSecrets = []string{
	"s3cret-env", "s3cret-annotation", "s3cret-applied", "s3cret-argument", "s3cret-flag", "s3cret-log", "s3cret-header",
	"s3cret-volume", "s3cret-in-url", "MIIEvQIBADANBg", "eyJhbGciOi.eyJzdWIiOi", "s3cret-of-secret", "s3cret-template",
}

func leakyObjects() (*fakePods, []client.Object) {
	pods, objects := fleetOfThree()
	node := objects[1].(*corev1.Pod)
	node.Annotations = map[string]string{
		"vault.example.com/config":                         "s3cret-annotation",
		"kubectl.kubernetes.io/last-applied-configuration": `{"env": "s3cret-applied"}`,
		"peercache.io/config-hash":                         "abc123",
	}
	c := &node.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "MY_SETTING", Value: "s3cret-env"})
	c.Args = append(c.Args, "--auth-token", "s3cret-argument", "--db-password=s3cret-flag", "--auth-token-file=/etc/token")
	c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Key", Value: "s3cret-header"}},
	}}}
	node.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: "d", VolumeAttributes: map[string]string{"any": "s3cret-volume"},
	}}}}
	doctor := "kv-default-a exec peercached doctor --json --config=/etc/peercache/peercached.toml"
	pods.answers[strings.Join(append([]string{"kv-default-a exec"}, peercached(node, "doctor", "--json")...), " ")] = pods.answers[doctor]
	pods.answers["kv-default-a logs peercached"] = []any{"joined\npassword=s3cret-log\nhttps://user:s3cret-in-url@host/\n" +
		"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\nAuthorization: Bearer eyJhbGciOi.eyJzdWIiOi.x\n"}
	pods.answers["kv-default-b logs peercached"] = []any{"joined\n"}
	pods.answers["kv-default-c previous peercached"] = []any{"cannot bind\n"}
	pods.answers["kv-default-a /metrics"] = []any{"peercache_members 3\n"}
	pods.answers["peercache-operator-1 logs operator"] = []any{"starting\n"}

	labels := map[string]string{"app.kubernetes.io/name": "peercache", "app.kubernetes.io/component": "operator"}
	operator := metav1.ObjectMeta{Namespace: "peercache-system", Name: "peercache-operator", Labels: labels}
	pod := operator
	pod.Name += "-1"
	return pods, append(objects,
		&appsv1.Deployment{ObjectMeta: operator},
		&corev1.Pod{ObjectMeta: pod, Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: "operator"}}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "inference", Name: "tls",
			Labels: node.Labels}, StringData: map[string]string{"tls.key": "s3cret-of-secret"}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "inference", Name: "e"}, Reason: "Killing"},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "inference", Name: "kv-default", Labels: node.Labels},
			Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "x", Env: []corev1.EnvVar{{Name: "PEERCACHE_AUTH", Value: "s3cret-template"}}}}}}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", Annotations: map[string]string{"a": "s3cret-annotation"}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{}, NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"}}},
	)
}

func TestSupportBundle(t *testing.T) {
	pods, objects := leakyObjects()
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	got := runCommand(t, pods, objects, "support-bundle", "-o", file)
	if got.status != 0 {
		t.Fatalf("%+v", got)
	}
	files := unpack(t, file)
	const kv = "clusters/inference/kv/"
	for name, want := range map[string]string{
		"README.txt": "Secrets were never read", "version.txt": "kubectl-peercache 0.1.0",
		kv + "cluster.yaml": "pool: 64Gi", kv + "status.txt": "NOT READY", kv + "members.txt": "3 active",
		kv + "doctor.txt": "mlx5_1 port 1", kv + "daemonsets.yaml": "kv-default", kv + "events.yaml": "Killing",
		kv + "members/node-a.default/pod.yaml":                        "PEERCACHE_GROUP",
		kv + "members/node-a.default/peercached.log":                  "joined",
		kv + "members/node-a.default/status.json":                     `"id": "node-a.default"`,
		kv + "members/node-a.default/metrics.txt":                     "peercache_members 3",
		kv + "members/node-c.default/peercached-previous.log":         "cannot bind",
		"operator/peercache-system/peercache-operator.yaml":           "peercache-operator",
		"operator/peercache-system/peercache-operator-1/operator.log": "starting",
		"machines.yaml": "v1.36.3",
		"errors.txt":    "kv-default-c waits (CrashLoopBackOff)",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s is %q, want %q in it", name, files[name], want)
		}
	}
	for name, text := range files {
		for _, leak := range exampleSecrets {
			if strings.Contains(text, leak) {
				t.Errorf("%s gives %s away:\n%s", name, leak, text)
			}
		}
		if strings.Contains(text, "kind: Secret") {
			t.Errorf("%s holds a Secret", name)
		}
	}
	// The bundle keeps what is no secret and helps.
	pod := files[kv+"members/node-a.default/pod.yaml"]
	for _, keeps := range []string{"peercache.io/config-hash: abc123", "value: default", "MY_SETTING", "--auth-token-file=/etc/token"} {
		if !strings.Contains(pod, keeps) {
			t.Errorf("the pod lacks %q:\n%s", keeps, pod)
		}
	}
	if strings.Contains(strings.Join(slices.Collect(maps.Keys(files)), " "), "node-c.default/status.json") {
		t.Error("a pod that does not run was asked for its status")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the archive: %v, %v", info.Mode(), err)
	}
	if again := runCommand(t, pods, objects, "support-bundle", "-o", file); again.status != 1 || !strings.Contains(again.stderr, "exists: name another file") {
		t.Errorf("the archive was overwritten: %+v", again)
	}
}

func TestSecretsAreRefused(t *testing.T) {
	var out strings.Builder
	b := newBundle(&out, "r", noon)
	b.object("secret.yaml", &corev1.Secret{})
	b.object("secrets.yaml", &corev1.SecretList{})
	if b.count != 0 || len(b.failures) != 2 {
		t.Errorf("%d files, failures %v", b.count, b.failures)
	}
}

func TestRedactText(t *testing.T) {
	for text, want := range map[string]string{
		"auth-token-file = \"/etc/token\"":                  "auth-token-file = \"/etc/token\"",
		"token: abc":                                        "token: REDACTED",
		"\"password\": \"a b\", \"x\": 1":                   "\"password\": REDACTED, \"x\": 1",
		"secretName: kv-peers-tls":                          "secretName: kv-peers-tls",
		"GET https://u:p@host/path":                         "GET https://REDACTED@host/path",
		"peercache_peer_refused_total{reason=\"x\"} 3":      "peercache_peer_refused_total{reason=\"x\"} 3",
		"peers at 10.0.0.1:31998, engines at /run/a.sock":   "peers at 10.0.0.1:31998, engines at /run/a.sock",
		"AWS_SECRET_ACCESS_KEY=abc/def other=1":             "AWS_SECRET_ACCESS_KEY=REDACTED other=1",
		"-----BEGIN RSA PRIVATE KEY-----\nabc cut off here": "REDACTED",
		"downloading with hf_AbCdEfGh12345":                 "downloading with REDACTED",
		"ghp_0123456789abcdefghij, AKIAIOSFODNN7EXAMPLE.":   "REDACTED, REDACTED.",
		"https://x.blob/m?sv=1&sig=aB%2Fc%3D&se=2":          "https://x.blob/m?sv=1&sig=REDACTED&se=2",
		"X-Amz-Signature=0123abcd&x=1":                      "X-Amz-Signature=REDACTED&x=1",
		"{\"auth\":\"dXNlcjpw\",\"author\":\"me\"}":         "{\"auth\":REDACTED,\"author\":\"me\"}",
		"Authorization: Token abcdefgh":                     "Authorization: REDACTED",
	} {
		if got := redactText(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
