// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// TestTenants checks that by default a node listens in a folder for each namespace, and that its plain socket is private to its
// pod.
func TestTenants(t *testing.T) {
	cluster := testCluster()
	desired := mustPlan(t, cluster)
	pod := desired.DaemonSets[0].Spec.Template.Spec
	for _, volume := range pod.Volumes {
		if volume.HostPath != nil && (volume.HostPath.Path != "/run/peercache/inference/demo.tenants" ||
			*volume.HostPath.Type != corev1.HostPathDirectoryOrCreate) {
			t.Errorf("volume %s is %+v of the machine", volume.Name, volume.HostPath)
		}
	}
	if volumeNamed(t, pod, "socket").EmptyDir == nil || volumeNamed(t, pod, "tenants").HostPath == nil {
		t.Errorf("volumes %+v", pod.Volumes)
	}
	for _, want := range []corev1.VolumeMount{
		{Name: "socket", MountPath: "/run/peercache"}, {Name: "tenants", MountPath: "/run/tenants"},
		{Name: "tenant-secret", MountPath: "/etc/peercache-tenants", ReadOnly: true},
	} {
		if !slices.Contains(pod.Containers[0].VolumeMounts, want) {
			t.Errorf("mounts %+v, want %+v among them", pod.Containers[0].VolumeMounts, want)
		}
	}
	if init := pod.InitContainers[0]; len(init.VolumeMounts) != 1 || init.VolumeMounts[0].Name != "tenants" {
		t.Errorf("%s mounts %+v", init.Name, init.VolumeMounts)
	}
	if secret := volumeNamed(t, pod, "tenant-secret").Secret; secret.SecretName != "demo-tenants" || *secret.DefaultMode != 0o440 {
		t.Errorf("nodes read %+v", secret)
	}
	kept := desired.Tenants
	if kept.Name != "demo-tenants" || !metav1.IsControlledBy(kept, cluster) || len(kept.Data)+len(kept.StringData) != 0 {
		t.Errorf("the operator keeps %+v", kept)
	}
}

// TestTenantSecretIsIndependentOfPeers checks that the secret of tenants does not depend on how nodes authenticate.
func TestTenantSecretIsIndependentOfPeers(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.PeerCacheClusterSpec){
		"no proof": insecure, "a token of the user's": namedToken,
		"certificates": func(s *v1alpha1.PeerCacheClusterSpec) {
			insecure(s)
			s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "kv-peers-tls"}
		},
		"the word of a later API": func(s *v1alpha1.PeerCacheClusterSpec) { s.Sharing = "Pod" },
	} {
		desired := mustPlan(t, testCluster(change))
		if desired.Tenants == nil || !strings.Contains(desired.Config.Data[configKey], "tenant-secret-file = ") {
			t.Errorf("%s: the operator keeps %v, and nodes read\n%s", name, desired.Tenants, desired.Config.Data[configKey])
		}
	}
}

func TestSharedByTheCluster(t *testing.T) {
	desired := mustPlan(t, testCluster(shareAll))
	if desired.Tenants != nil || strings.Contains(desired.Config.Data[configKey], "tenant") {
		t.Errorf("the operator keeps %v, and nodes read\n%s", desired.Tenants, desired.Config.Data[configKey])
	}
	for _, volume := range desired.DaemonSets[0].Spec.Template.Spec.Volumes {
		if volume.Name == "tenants" || volume.Name == "tenant-secret" {
			t.Errorf("volume %+v", volume)
		}
	}
}

// TestTenantSocketsHaveShortPaths checks the longest path: the kernel accepts 107 characters.
func TestTenantSocketsHaveShortPaths(t *testing.T) {
	const namespace, group = 63, 20 // the maximum lengths
	if path := filepath.Join(tenantsDir, strings.Repeat("n", namespace), strings.Repeat("g", group)+".sock"); len(path) > 107 {
		t.Errorf("%d characters", len(path))
	}
}

func TestTenantSecret(t *testing.T) {
	first, second := &corev1.Secret{}, &corev1.Secret{}
	GenerateTenantSecret(first)
	GenerateTenantSecret(second)
	if bytes.Equal(first.Data["secret"], second.Data["secret"]) || CheckTenantSecret(first) != nil {
		t.Errorf("generated %q: %v", first.Data, CheckTenantSecret(first))
	}
	for _, data := range []map[string][]byte{nil, {"secret": []byte("of fifteen byte")}, {"secret": []byte("0123456789abcdef\n")}, {"token": first.Data["secret"]}} {
		if problem := CheckTenantSecret(&corev1.Secret{Data: data}); problem == nil || problem.Reason != "TenantSecretInvalid" {
			t.Errorf("%q: %v", data, problem)
		}
	}
}

// TestNodesOwnTheTenantsDirectory runs the command of the init container with only its rights, on folders of another user and
// of a kubelet. Nodes must also be able to use the folders that a kubelet creates afterwards.
func TestNodesOwnTheTenantsDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root can give folders away: run this lane as root")
		}
		t.Skip("only root can give folders away: run it as root")
	}
	folder, err := os.MkdirTemp("", "tenants") // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	all := filepath.Join(folder, "demo.tenants")
	for _, early := range []string{"inference", "serving/below"} {
		if err := os.MkdirAll(filepath.Join(all, early), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(all, "serving"), 4711, 4711); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"31998:31998", "31998:31998", "0:0", "31998:31998"} {
		command := chownTenantsDir(user)
		command[slices.Index(command, tenantsDir)] = all
		restrictedSecurityContext := append([]string{"--bounding-set=-all,+chown", "--no-new-privs", "--clear-groups"}, command...)
		if output, err := exec.CommandContext(t.Context(), "setpriv", restrictedSecurityContext...).CombinedOutput(); err != nil {
			t.Fatalf("as %s: %v: %s", user, err, output)
		}
		for _, path := range []string{all, all + "/inference", all + "/serving"} {
			if got := ownerOf(t, path); got != user {
				t.Errorf("as %s: %s is of %s", user, path, got)
			}
		}
		if got := ownerOf(t, all+"/serving/below"); got != "0:0" {
			t.Errorf("what no node looks at was given to %s", got)
		}
	}

	later := filepath.Join(all, "later")
	makeAsKubelet(t, later)
	bind := exec.CommandContext(t.Context(), "touch", all+"/inference/default.sock", later+"/default.sock")
	bind.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nodeUser, Gid: nodeUser}}
	if output, err := bind.CombinedOutput(); err != nil {
		t.Errorf("a node cannot listen in a folder: %v: %s", err, output)
	}
	stranger := exec.CommandContext(t.Context(), "touch", later+"/other.sock")
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	if err := stranger.Run(); err == nil {
		t.Error("anybody can put a socket beside a node's")
	}
}

// makeAsKubelet creates a folder as the subPath of a hostPath does (SafeMakeDir of
// k8s.io/kubernetes/pkg/volume/util/subpath).
func makeAsKubelet(t *testing.T, path string) {
	t.Helper()
	around, err := os.Stat(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, around.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, around.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
}

func ownerOf(t *testing.T, path string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "stat", "-c", "%u:%g", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(output))
}
