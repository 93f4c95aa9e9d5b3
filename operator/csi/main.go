// SPDX-License-Identifier: Apache-2.0

// Command peercache-csi gives pods the directory with the Unix sockets of a PeerCacheCluster's nodes as a CSI ephemeral
// volume. SGLang pods then need no hostPath, and may run in namespaces with Pod Security "baseline" or "restricted":
//
//	volumes:
//	  - name: peercache-socket
//	    csi:
//	      driver: csi.peercache.io
//	      readOnly: true
//	      volumeAttributes: {namespace: serving, cluster: kv}
//
// It runs once per machine, separately from the nodes of any cluster. It mounts a directory of the machine, so a volume
// outlives the pod of the node and of the driver. Mounting for other pods needs privilege, so this program has only that task.
// It keeps no state except the mounts.
//
// Files: request.go checks requests, access.go decides which pods a cluster serves, mount.go mounts, service.go answers the
// kubelet, register.go registers the driver with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/peercache/peercache/operator/plan"
)

// version is set by the linker: -ldflags "-X main.version=$(cat VERSION)".
var version = "0.0.0-unreleased"

// checkTimeout bounds --check.
const checkTimeout = 3 * time.Second

type options struct {
	kubeletDir string
	machine    string
	check      bool
}

// The paths depend on the kubelet's directory. They are the same in this container and for the kubelet.
func (o options) csiSocket() string {
	return filepath.Join(o.kubeletDir, "plugins", plan.CSIDriver, "csi.sock")
}
func (o options) registrationSocket() string {
	return filepath.Join(o.kubeletDir, "plugins_registry", plan.CSIDriver+"-reg.sock")
}
func (o options) pods() string { return filepath.Join(o.kubeletDir, "pods") }

func main() {
	o, err := parseFlags(os.Args[1:], os.Getenv, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "peercache-csi:", err)
		os.Exit(2)
	}
	if err := start(o); err != nil {
		fmt.Fprintln(os.Stderr, "peercache-csi:", err)
		os.Exit(1)
	}
}

// start runs what the flags ask for, until a signal arrives.
func start(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if o.check {
		return check(ctx, o)
	}
	return run(ctx, o)
}

func parseFlags(args []string, getenv func(string) string, output io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("peercache-csi", flag.ContinueOnError)
	set.SetOutput(output)
	set.StringVar(&o.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "the kubelet's `folder` (its --root-dir), mounted here at the same path")
	set.StringVar(&o.machine, "node-name", getenv("NODE_NAME"), "`name` of the Kubernetes node (environment: NODE_NAME)")
	set.BoolVar(&o.check, "check", false, "ask the driver that runs here whether the kubelet has registered it, and exit")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	switch {
	case set.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: write flags as --name=value, see --help", set.Arg(0))
	case !filepath.IsAbs(o.kubeletDir) || filepath.Clean(o.kubeletDir) != o.kubeletDir:
		return o, fmt.Errorf("--kubelet-dir=%s is not an absolute path in its shortest form: write for example /var/lib/kubelet", o.kubeletDir)
	case o.machine == "" && !o.check:
		return o, errors.New("the name of the Kubernetes node is unknown: write --node-name, or set NODE_NAME from spec.nodeName")
	}
	return o, nil
}

// run serves until the context ends.
func run(ctx context.Context, o options) error {
	clusters, err := clusterReader(ctrl.GetConfig)
	if err != nil {
		return err
	}
	slog.Info("starting", "version", version, "driver", plan.CSIDriver, "node", o.machine, "kubeletDir", o.kubeletDir)
	return serve(ctx, o, &service{machine: o.machine, pods: o.pods(), access: access{clusters}, mounts: mounts{root: plan.SocketDir}})
}

// serve answers the kubelet on both sockets. It returns an error when the kubelet refuses the driver, so that the container
// restarts and registers again.
func serve(ctx context.Context, o options, driver *service) error {
	server := grpc.NewServer(grpc.UnaryInterceptor(logged))
	csispec.RegisterIdentityServer(server, driver)
	csispec.RegisterNodeServer(server, driver)
	registrar := newRegistrar(o.csiSocket())
	driver.registered = registrar.done.Load
	registry := grpc.NewServer()
	registration.RegisterRegistrationServer(registry, registrar)

	failed := make(chan error, 2)
	// The registration comes last, because the kubelet calls the driver as soon as it sees its socket.
	for _, s := range []struct {
		server *grpc.Server
		path   string
	}{{server, o.csiSocket()}, {registry, o.registrationSocket()}} {
		listener, err := listen(ctx, s.path)
		if err != nil {
			return err
		}
		go func() { failed <- s.server.Serve(listener) }()
		defer s.server.Stop() // this closes the listener, which removes its socket
	}
	select {
	case <-ctx.Done():
		slog.Info("stopping")
		registry.Stop() // the kubelet sends no new requests now
		server.GracefulStop()
		return nil
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case err := <-registrar.refused:
		return err
	}
}

// listen creates a socket that only root may use. It replaces the socket of an earlier process.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("making the folder of a socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier process: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("restricting the permissions of a socket: %w", err)
	}
	return listener, nil
}

// check is the readiness probe of the pod.
func check(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+o.csiSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", o.csiSocket(), err)
	}
	defer func() { _ = connection.Close() }()
	answer, err := csispec.NewIdentityClient(connection).Probe(ctx, &csispec.ProbeRequest{})
	switch {
	case err != nil:
		return fmt.Errorf("asking %s: %w", o.csiSocket(), err)
	case !answer.GetReady().GetValue():
		return fmt.Errorf("the kubelet has not registered %s yet: wait, or write its --root-dir as --kubelet-dir, which is %s now", plan.CSIDriver, o.kubeletDir)
	}
	return nil
}
