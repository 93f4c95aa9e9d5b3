// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package testenv

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/peercache/peercache/internal/apiserver"
)

// Controllers runs Kubernetes' own controllers of Deployments and StatefulSets until the test ends, so that pods come from them.
func Controllers(t *testing.T) {
	t.Helper()
	program := filepath.Join(os.Getenv(apiserver.Assets), "kube-controller-manager")
	if _, err := os.Stat(program); err != nil { //nolint:gosec // whoever runs the tests names the folder
		t.Fatalf("%v: this test needs Kubernetes' controllers beside kube-apiserver; `make test-envtest` builds them, without %s", err, apiserver.Assets)
	}
	var output bytes.Buffer
	//nolint:gosec // likewise
	command := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--kubeconfig="+kubeconfig(t), "--controllers=deployment-controller,replicaset-controller,statefulset-controller",
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=100", "--kube-api-burst=200")
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatalf("starting %s: %v", program, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // killed below, or its output is shown
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = command.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("kube-controller-manager:\n%s", output.Bytes()[max(0, output.Len()-4000):])
		}
	})
}

// kubeconfig writes the administrator's configuration to a file.
func kubeconfig(t *testing.T) string {
	t.Helper()
	admin, file := Config(), filepath.Join(t.TempDir(), "kubeconfig")
	written := clientcmdapi.NewConfig()
	written.Clusters["here"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	written.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData}
	written.Contexts["here"] = &clientcmdapi.Context{Cluster: "here", AuthInfo: "admin"}
	written.CurrentContext = "here"
	if err := clientcmd.WriteToFile(*written, file); err != nil {
		t.Fatal(err)
	}
	return file
}
