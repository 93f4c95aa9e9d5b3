// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	answerWithin = 2 * time.Minute // ends a hang
	aPod         = "0b1d3a52-5b5e-4f4e-9c1f-1d9a6a3c7e11"
)

// machine is a driver with its sockets, the directory of all sockets, and a kubelet's directory of pods. Mounts there propagate
// to the view of the machine.
type machine struct {
	options
	root  string // the directory of all sockets
	hosts string // the directory of pods in the view of the machine
	ended chan error
}

// startMachine runs the driver until the test ends.
func startMachine(t *testing.T, live ...client.Object) *machine {
	t.Helper()
	folder, err := os.MkdirTemp("", "csi") // the paths of Unix sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{
		options: options{kubeletDir: folder + "/kubelet", machine: "machine-a"},
		root:    folder + "/run", hosts: folder + "/host", ended: make(chan error, 1),
	}
	for _, path := range []string{m.pods(), m.root, m.hosts} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// As with mountPropagation: Bidirectional, a mount in one directory appears in the other.
	for _, mount := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"pods", m.hosts, "tmpfs", 0}, {"", m.hosts, "", unix.MS_SHARED}, {m.hosts, m.pods(), "", unix.MS_BIND},
	} {
		if err := unix.Mount(mount.source, mount.target, mount.kind, mount.flags, ""); err != nil {
			t.Fatalf("mounting %+v: %v", mount, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		m.ended <- serve(ctx, m.options, &service{
			machine: m.machine, pods: m.pods(), access: access{reader(t, live...)}, mounts: mounts{root: m.root},
		})
	}()
	t.Cleanup(func() {
		stop()
		for _, mount := range mountsBelow(t, folder) {
			_ = unix.Unmount(mount, unix.MNT_DETACH)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return m
}

func reader(t *testing.T, live ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(live...).Build()
}

// kvCluster gives its sockets to pods of namespaces with the label team=a.
func kvCluster() *v1alpha1.PeerCacheCluster {
	cluster := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "serving", Name: "kv"}}
	cluster.Spec.Injection.Socket = v1alpha1.SocketCSI
	cluster.Spec.Injection.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	return cluster
}

func namespaces() []client.Object {
	hostPath, private := kvCluster(), kvCluster()
	hostPath.Name, hostPath.Spec.Injection.Socket = "by-path", v1alpha1.SocketHostPath
	private.Name, private.Spec.Injection.NamespaceSelector = "private", nil
	shared := kvCluster()
	shared.Name, shared.Spec.Sharing = "shared", v1alpha1.SharingCluster
	return []client.Object{
		kvCluster(), hostPath, private, shared,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "inference", Labels: map[string]string{"team": "a"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "others", Labels: map[string]string{"team": "b"}}},
	}
}

// dial connects to a socket, and waits until it exists.
func dial(t *testing.T, path string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func (m *machine) node(t *testing.T) csispec.NodeClient {
	t.Helper()
	return csispec.NewNodeClient(dial(t, m.csiSocket()))
}

func (m *machine) registry(t *testing.T) registration.RegistrationClient {
	t.Helper()
	return registration.NewRegistrationClient(dial(t, m.registrationSocket()))
}

// target is the target path of the volume of a pod.
func (m *machine) target(pod string) string {
	return filepath.Join(m.pods(), pod, "volumes/kubernetes.io~csi/peercache-socket/mount")
}

// request is the kubelet's request for an inline volume of a pod.
func (m *machine) request(change ...func(*csispec.NodePublishVolumeRequest)) *csispec.NodePublishVolumeRequest {
	request := &csispec.NodePublishVolumeRequest{
		VolumeId:   "csi-" + aPod,
		TargetPath: m.target(aPod),
		Readonly:   true,
		VolumeCapability: &csispec.VolumeCapability{
			AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
			AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
		VolumeContext: map[string]string{
			"namespace": "serving", "cluster": "kv",
			"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.namespace": "inference",
			"csi.storage.k8s.io/pod.name": "engine", "csi.storage.k8s.io/pod.uid": aPod,
			"csi.storage.k8s.io/serviceAccount.name": "default",
		},
	}
	for _, f := range change {
		f(request)
	}
	return request
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	t.Cleanup(cancel)
	return ctx
}

func (m *machine) publish(t *testing.T, change ...func(*csispec.NodePublishVolumeRequest)) {
	t.Helper()
	if _, err := m.node(t).NodePublishVolume(within(t), m.request(change...)); err != nil {
		t.Fatalf("publishing: %v", err)
	}
}

func (m *machine) unpublish(t *testing.T, target string) {
	t.Helper()
	request := &csispec.NodeUnpublishVolumeRequest{VolumeId: "csi-" + aPod, TargetPath: target}
	if _, err := m.node(t).NodeUnpublishVolume(within(t), request); err != nil {
		t.Fatalf("unpublishing: %v", err)
	}
}

// startNode listens as a node of the cluster would for pods of namespace inference, and sends a greeting to each client. The
// returned function stops it.
func (m *machine) startNode(t *testing.T, greeting string) (stop func()) {
	t.Helper()
	return m.listenBelow(t, "serving/kv.tenants/inference", greeting)
}

// listenBelow is startNode in a folder below the directory of all sockets.
func (m *machine) listenBelow(t *testing.T, folder, greeting string) (stop func()) {
	t.Helper()
	path := filepath.Join(m.root, folder, "default.sock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte(greeting))
			_ = connection.Close()
		}
	}()
	stop = func() { _ = listener.Close() }
	t.Cleanup(stop)
	return stop
}

// greetingAt returns the greeting of the node whose socket is below a mount point.
func greetingAt(t *testing.T, target string) string {
	t.Helper()
	directory, err := os.Open(target) // the path is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = directory.Close() }()
	connection, err := (&net.Dialer{}).DialContext(within(t), "unix", fmt.Sprintf("/proc/self/fd/%d/default.sock", directory.Fd()))
	if err != nil {
		t.Fatalf("connecting as an engine: %v", err)
	}
	defer func() { _ = connection.Close() }()
	greeting := make([]byte, 64)
	n, _ := connection.Read(greeting)
	return string(greeting[:n])
}

// mountsBelow returns the mount points below a folder, the last ones first.
func mountsBelow(t *testing.T, folder string) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], folder+"/") {
			found = append([]string{fields[4]}, found...)
		}
	}
	return found
}
