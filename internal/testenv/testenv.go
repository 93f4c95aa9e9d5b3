// SPDX-License-Identifier: Apache-2.0

//go:build envtest

// Package testenv starts a real kube-apiserver, with the CRDs of config/crd, for the tests of one package:
//
//	func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
//	func TestX(t *testing.T)    { c := testenv.Client(t); namespace := testenv.Namespace(t) ... }
//
// Such tests have the build tag envtest and run with `make test-envtest`. KUBEBUILDER_ASSETS names the folder with
// kube-apiserver and etcd. Without it the tests fail, because a skipped test proves nothing.
package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/apiserver"
)

var config *rest.Config

// Main runs the tests of a package against its own API server, and returns the exit status.
func Main(m *testing.M) int {
	if os.Getenv(apiserver.Assets) == "" {
		fmt.Fprintf(os.Stderr, "%s is not set: these tests need kube-apiserver and etcd; run them with `make test-envtest`, "+
			"or name the folder that holds both programs\n", apiserver.Assets)
		return 1
	}
	folder, err := root()
	if err != nil {
		fmt.Fprintf(os.Stderr, "looking for config/crd: %v\n", err)
		return 1
	}
	ctrl.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(os.Stderr)))
	certificates, err := os.MkdirTemp("", "testenv-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(certificates) }()
	admission, err := admissionConfig(certificates)
	if err != nil {
		fmt.Fprintf(os.Stderr, "writing the certificate that the API server shows to webhooks: %v\n", err)
		return 1
	}
	environment, started, err := apiserver.Start(func() *envtest.Environment {
		environment := &envtest.Environment{
			CRDDirectoryPaths:     []string{filepath.Join(folder, "config", "crd")},
			ErrorIfCRDPathMissing: true,
			Scheme:                Scheme(),
		}
		environment.ControlPlane.GetAPIServer().Configure().Set("admission-control-config-file", admission)
		return environment
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	config = started
	status := m.Run()
	if err := environment.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stopping kube-apiserver and etcd: %v\n", err)
		return max(status, 1)
	}
	return status
}

// Config returns a copy of the administrator's configuration.
func Config() *rest.Config {
	// Read by a test, it is part of what `go test` caches results by: another API server has its own.
	_ = os.Getenv(apiserver.Assets)
	return rest.CopyConfig(config)
}

// Scheme has the kinds of Kubernetes and PeerCache.
func Scheme() *apiruntime.Scheme {
	scheme := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}

// Client returns an administrator's client that reads from the API server.
func Client(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(Config(), client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return c
}

// Namespace creates a namespace, so that tests do not see objects of other tests.
func Namespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := Client(t).Create(t.Context(), namespace); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	return namespace.Name
}

// File is the path of a file of the project.
func File(t *testing.T, path string) string {
	t.Helper()
	folder, err := root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, path)
}

// Hang ends what would never end: what is waited for comes in a small part of it, also on a busy machine.
const Hang = 2 * time.Minute

// Eventually waits until check returns nil, and fails with its last error when that hangs.
func Eventually(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(Hang); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("after %s: %v", Hang, err)
}

// root returns the folder of config/crd, above the package whose tests run. Modules below it have a go.mod of their own.
func root() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for folder != filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "config", "crd")); err == nil {
			return folder, nil
		}
		folder = filepath.Dir(folder)
	}
	return "", errors.New("no config/crd above the working directory")
}
