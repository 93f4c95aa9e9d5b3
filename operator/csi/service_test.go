// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPublish checks that an engine reaches its node through the volume, in the view of the driver and of the machine, and cannot
// write there.
func TestPublish(t *testing.T) {
	m := startMachine(t, namespaces()...)
	stop := m.startNode(t, "first")
	m.publish(t)
	onMachine := strings.Replace(m.target(aPod), m.pods(), m.hosts, 1)
	for _, view := range []string{m.target(aPod), onMachine} {
		if got := greetingAt(t, view); got != "first" {
			t.Errorf("the node says %q below %s", got, view)
		}
		var flags unix.Statfs_t
		if err := unix.Statfs(view, &flags); err != nil {
			t.Fatal(err)
		}
		const want = unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC
		if flags.Flags&want != want {
			t.Errorf("%s is mounted with flags %x, want %x", view, flags.Flags, want)
		}
		if err := os.WriteFile(filepath.Join(view, "other.sock"), nil, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("writing below %s: %v", view, err)
		}
	}

	// The pod of the node is replaced: a new process creates a new socket in the same directory.
	stop()
	m.startNode(t, "second")
	if got := greetingAt(t, onMachine); got != "second" {
		t.Errorf("after a restart of the node, it says %q", got)
	}
}

// TestPublishInOwnNamespace checks that the cluster's own namespace is served whatever the selector is, without reading
// it.
func TestPublishInOwnNamespace(t *testing.T) {
	m := startMachine(t, namespaces()...)
	for _, cluster := range []string{"kv", "private"} {
		m.publish(t, func(r *csispec.NodePublishVolumeRequest) {
			r.VolumeContext["cluster"], r.VolumeContext["csi.storage.k8s.io/pod.namespace"] = cluster, "serving"
		})
		m.unpublish(t, m.target(aPod))
	}
}

// TestPublishTwice checks repeated calls of the kubelet, also after a restart of the driver.
func TestPublishTwice(t *testing.T) {
	m := startMachine(t, namespaces()...)
	before := len(mountsBelow(t, m.pods()))
	m.publish(t)
	m.publish(t)
	if got := mountsBelow(t, m.pods()); len(got) != before+1 {
		t.Errorf("mounted are %q", got)
	}
	for range 2 {
		m.unpublish(t, m.target(aPod))
		if got := mountsBelow(t, m.pods()); len(got) != before {
			t.Errorf("after unpublishing, mounted are %q", got)
		}
		if _, err := os.Stat(m.target(aPod)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after unpublishing, the mount point is there (error %v)", err)
		}
	}
	if _, err := os.Stat(filepath.Join(m.root, "serving/kv.tenants/inference")); err != nil {
		t.Errorf("unpublishing took the directory of the sockets: %v", err)
	}
}

// TestPublishBeforeNode checks that SGLang pods may start before the node.
func TestPublishBeforeNode(t *testing.T) {
	m := startMachine(t, namespaces()...)
	m.publish(t)
	m.startNode(t, "late")
	if got := greetingAt(t, m.target(aPod)); got != "late" {
		t.Errorf("the node says %q", got)
	}
}

// TestDirectoryRecreated checks that a mount of a deleted directory is replaced.
func TestDirectoryRecreated(t *testing.T) {
	m := startMachine(t, namespaces()...)
	m.publish(t)
	if err := os.RemoveAll(filepath.Join(m.root, "serving")); err != nil {
		t.Fatal(err)
	}
	m.startNode(t, "anew")
	m.publish(t)
	if got := greetingAt(t, m.target(aPod)); got != "anew" {
		t.Errorf("the node says %q", got)
	}
}

// TestTenants checks that each namespace has its own sockets, and that a pod gets those of the namespace that the kubelet
// names.
func TestTenants(t *testing.T) {
	m := startMachine(t, append(namespaces(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "research", Labels: map[string]string{"team": "a"}},
	})...)
	greetings := map[string]string{"inference": "to inference", "research": "to research", "serving": "to serving"}
	for namespace, greeting := range greetings {
		m.listenBelow(t, "serving/kv.tenants/"+namespace, greeting)
	}
	m.listenBelow(t, "serving/kv.tenants", "to anybody")
	m.listenBelow(t, "serving/kv", "to pods of before")
	for namespace, want := range greetings {
		m.publish(t, func(r *csispec.NodePublishVolumeRequest) {
			r.VolumeContext["csi.storage.k8s.io/pod.namespace"] = namespace
		})
		if got := greetingAt(t, m.target(aPod)); got != want {
			t.Errorf("a pod of %s hears %q", namespace, got)
		}
		for _, above := range []string{"..", "../inference", "inference"} {
			if entries, err := os.ReadDir(m.target(aPod) + "/" + above); err == nil && strings.Contains(fmt.Sprint(entries), "default.sock") {
				t.Errorf("a pod of %s sees %v at %s", namespace, entries, above)
			}
		}
		m.unpublish(t, m.target(aPod))
	}
}

// TestSharedByTheCluster checks that pods of all namespaces get the same sockets.
func TestSharedByTheCluster(t *testing.T) {
	m := startMachine(t, namespaces()...)
	m.listenBelow(t, "serving/shared", "to all")
	for _, namespace := range []string{"inference", "serving"} {
		m.publish(t, func(r *csispec.NodePublishVolumeRequest) {
			r.VolumeContext["cluster"], r.VolumeContext["csi.storage.k8s.io/pod.namespace"] = "shared", namespace
		})
		if got := greetingAt(t, m.target(aPod)); got != "to all" {
			t.Errorf("a pod of %s hears %q", namespace, got)
		}
		m.unpublish(t, m.target(aPod))
	}
}

// TestNodesOwnTheFoldersOfTenants checks that a node that is not root can listen in a folder that the driver creates or
// finds.
func TestNodesOwnTheFoldersOfTenants(t *testing.T) {
	m := startMachine(t, namespaces()...)
	all := filepath.Join(m.root, "serving/kv.tenants")
	if err := errors.Join(os.MkdirAll(all, 0o755), os.Chown(all, 31998, 31998)); err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"nothing", "a folder of root"} {
		m.publish(t)
		var folder unix.Stat_t
		if err := unix.Stat(all+"/inference", &folder); err != nil {
			t.Fatal(err)
		}
		if folder.Uid != 31998 || folder.Gid != 31998 || folder.Mode&0o777 != 0o755 {
			t.Errorf("where there was %s, the folder is of %d:%d with mode %o", before, folder.Uid, folder.Gid, folder.Mode)
		}
		m.unpublish(t, m.target(aPod))
		if err := os.Chown(all+"/inference", 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnpublishKeepsFiles checks that files at a target that is not mounted are kept.
func TestUnpublishKeepsFiles(t *testing.T) {
	m := startMachine(t, namespaces()...)
	file := filepath.Join(m.target(aPod), "file")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	request := &csispec.NodeUnpublishVolumeRequest{VolumeId: "x", TargetPath: m.target(aPod)}
	if _, err := m.node(t).NodeUnpublishVolume(within(t), request); status.Code(err) != codes.Internal {
		t.Errorf("unpublishing gives %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	m := startMachine(t, namespaces()...)
	secret := filepath.Join(filepath.Dir(m.root), "secret")
	if err := os.MkdirAll(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	// Only root could have created these.
	if err := os.MkdirAll(filepath.Join(m.root, "inference"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := len(mountsBelow(t, m.pods()))
	attribute := func(name, value string) func(*csispec.NodePublishVolumeRequest) {
		return func(r *csispec.NodePublishVolumeRequest) { r.VolumeContext[name] = value }
	}
	without := func(name string) func(*csispec.NodePublishVolumeRequest) {
		return func(r *csispec.NodePublishVolumeRequest) {
			r.VolumeContext = maps.Clone(r.VolumeContext)
			delete(r.VolumeContext, name)
		}
	}
	at := func(path string) func(*csispec.NodePublishVolumeRequest) {
		return func(r *csispec.NodePublishVolumeRequest) { r.TargetPath = path }
	}
	for name, test := range map[string]struct {
		change func(*csispec.NodePublishVolumeRequest)
		code   codes.Code
		says   string
	}{
		"writable":          {func(r *csispec.NodePublishVolumeRequest) { r.Readonly = false }, codes.InvalidArgument, "readOnly: true"},
		"unknown attribute": {attribute("path", "/etc"), codes.InvalidArgument, `volumeAttributes has "path"`},
		"cluster above":     {attribute("cluster", ".."), codes.InvalidArgument, `volumeAttributes.cluster is ".."`},
		"cluster elsewhere": {attribute("cluster", "../../secret"), codes.InvalidArgument, `volumeAttributes.cluster is "../../secret"`},
		"absolute":          {attribute("cluster", secret), codes.InvalidArgument, "volumeAttributes.cluster is"},
		"below a cluster":   {attribute("cluster", "kv/sub"), codes.InvalidArgument, "kubectl get pcc -A"},
		"namespace above":   {attribute("namespace", "."), codes.InvalidArgument, `volumeAttributes.namespace is "."`},
		"a zero byte":       {attribute("namespace", "serving\x00"), codes.InvalidArgument, "volumeAttributes.namespace is"},
		"no namespace":      {without("namespace"), codes.InvalidArgument, `volumeAttributes.namespace is ""`},
		"no cluster":        {without("cluster"), codes.InvalidArgument, `volumeAttributes.cluster is ""`},
		"not inline":        {without("csi.storage.k8s.io/ephemeral"), codes.InvalidArgument, "podInfoOnMount: true"},
		"no pod namespace":  {without("csi.storage.k8s.io/pod.namespace"), codes.InvalidArgument, "podInfoOnMount: true"},
		"of a pod whose namespace is a path": {
			attribute("csi.storage.k8s.io/pod.namespace", "../serving"), codes.InvalidArgument, "which is not a namespace",
		},
		"no such cluster":  {attribute("cluster", "other"), codes.NotFound, "PeerCacheCluster serving/other does not exist"},
		"by hostPath only": {attribute("cluster", "by-path"), codes.PermissionDenied, "write injection.socket: CSI"},
		"of a namespace that is not served": {
			attribute("csi.storage.k8s.io/pod.namespace", "others"), codes.PermissionDenied, "serves no pods of namespace others",
		},
		"of another namespace than the cluster's, which has no selector": {
			attribute("cluster", "private"), codes.PermissionDenied, "serves no pods of namespace inference",
		},
		"of an unknown namespace": {
			attribute("csi.storage.k8s.io/pod.namespace", "gone"), codes.PermissionDenied, "reading namespace gone failed",
		},
		"no id":     {func(r *csispec.NodePublishVolumeRequest) { r.VolumeId = "" }, codes.InvalidArgument, "volume_id is missing"},
		"no target": {at(""), codes.InvalidArgument, "target_path is missing"},
		"target elsewhere": {
			at(secret), codes.InvalidArgument, "run the driver with the kubelet's --root-dir",
		},
		"target by a detour": {at(m.pods() + "/../../secret"), codes.InvalidArgument, "which is not below"},
		"no capability": {
			func(r *csispec.NodePublishVolumeRequest) { r.VolumeCapability = nil }, codes.InvalidArgument, "volume_capability is missing",
		},
		"a block device": {
			func(r *csispec.NodePublishVolumeRequest) {
				r.VolumeCapability.AccessType = &csispec.VolumeCapability_Block{Block: &csispec.VolumeCapability_BlockVolume{}}
			}, codes.InvalidArgument, "asks for a block device",
		},
	} {
		_, err := m.node(t).NodePublishVolume(within(t), m.request(test.change))
		if status.Code(err) != test.code || !strings.Contains(status.Convert(err).Message(), test.says) {
			t.Errorf("%s: error %v, want %s with %q", name, err, test.code, test.says)
		}
	}
	if got := mountsBelow(t, m.pods()); len(got) != before {
		t.Errorf("something was mounted: %q", got)
	}
	for _, target := range []string{"", secret, m.pods(), m.pods() + "/a/../../../secret"} {
		request := &csispec.NodeUnpublishVolumeRequest{VolumeId: "x", TargetPath: target}
		if _, err := m.node(t).NodeUnpublishVolume(within(t), request); status.Code(err) != codes.InvalidArgument {
			t.Errorf("unpublishing %q gives %v", target, err)
		}
	}
}

// TestLinks checks that a link below the directory of all sockets does not lead out of it.
func TestLinks(t *testing.T) {
	m := startMachine(t, namespaces()...)
	secret := filepath.Join(filepath.Dir(m.root), "secret")
	for _, link := range []struct{ target, at string }{
		{secret, "serving/kv.tenants"}, {"../../secret", "serving/kv.tenants"}, {secret, "serving"},
		{secret + "/inference", "serving/kv.tenants/inference"}, {"other", "serving/kv.tenants/inference"},
	} {
		at := filepath.Join(m.root, link.at)
		if err := errors.Join(os.RemoveAll(filepath.Join(m.root, "serving")), os.MkdirAll(secret+"/kv.tenants/inference", 0o755),
			os.MkdirAll(secret+"/inference", 0o755), os.MkdirAll(filepath.Join(m.root, "serving/kv.tenants/other"), 0o755),
			os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(link.target, at)); err != nil {
			t.Fatal(err)
		}
		if _, err := m.node(t).NodePublishVolume(within(t), m.request()); status.Code(err) != codes.Internal {
			t.Errorf("a link from %s to %s: error %v", link.at, link.target, err)
		}
	}
}
