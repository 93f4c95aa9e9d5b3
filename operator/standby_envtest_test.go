// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
)

// asOperator makes the test binary run as the operator. Controller names are unique in a process, so another replica needs its
// own process.
const asOperator = "PEERCACHE_TEST_AS_OPERATOR"

// testStandby checks that a replica that does not lead answers the webhook with the same certificate as the leader.
func testStandby(t *testing.T, c client.Client, leader addresses) {
	// The lease may still belong to an operator that has just stopped.
	testenv.Eventually(t, func() error { return probe(t.Context(), leader.probes, "/readyz") })
	before := leads(t, c)
	standby := startProcess(t)
	testenv.Eventually(t, func() error { return probe(t.Context(), standby.probes, "/readyz") })
	if now := leads(t, c); now != before {
		t.Fatalf("%s leads, after %s", now, before)
	}
	namespace := testenv.Namespace(t)
	if err := c.Create(t.Context(), demo(namespace)); err != nil {
		t.Fatal(err)
	}
	byLeader := admit(t, c, leader.webhook, namespace)
	if byStandby := admit(t, c, standby.webhook, namespace); byStandby != byLeader {
		t.Errorf("the leader answers %s, the standby %s", byLeader, byStandby)
	}
	for _, served := range []string{leader.webhook, standby.webhook} {
		testRotation(t, c, addresses{webhook: served})
	}
	for _, served := range []string{leader.webhook, standby.webhook} {
		testenv.Eventually(t, func() error { return handshake(t.Context(), c, served) })
	}
}

// TestCertificateOfSomebodyElse checks that with --webhook-certificates the operator serves the given certificate, and does not
// change the CA of the webhook configuration.
func TestCertificateOfSomebodyElse(t *testing.T) {
	c := testenv.Client(t)
	prepare(t, c)
	folder, certificate := givenCertificate(t, "peercache-webhook."+systemNamespace+".svc")
	configuration := &registrationv1.MutatingWebhookConfiguration{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "peercache-inject"}, configuration); err != nil {
		t.Fatal(err)
	}
	configuration.Webhooks[0].ClientConfig.CABundle = certificate
	if err := c.Update(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	operator := startProcess(t, "--webhook-certificates="+folder)
	testenv.Eventually(t, func() error { return probe(t.Context(), operator.probes, "/readyz") })
	leads(t, c)
	namespace := testenv.Namespace(t)
	cluster := demo(namespace)
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	admit(t, c, operator.webhook, namespace)
	// The operator reconciles, so it would have written the CA by now.
	testenv.Eventually(t, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		if ready := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionInjectionReady); ready == nil || ready.Reason != "WebhookReady" {
			return fmt.Errorf("InjectionReady is %+v", ready)
		}
		return nil
	})
	if err := c.Get(t.Context(), client.ObjectKey{Name: "peercache-inject"}, configuration); err != nil {
		t.Fatal(err)
	}
	if now := configuration.Webhooks[0].ClientConfig.CABundle; !bytes.Equal(now, certificate) {
		t.Errorf("the CA is now\n%s", now)
	}
	err := c.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: "peercache-webhook-cert"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("it has made a Secret of its own (error %v)", err)
	}
}

func demo(namespace string) *v1alpha1.PeerCacheCluster {
	return &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
		Spec:       v1alpha1.PeerCacheClusterSpec{Memory: v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi")}},
	}
}

func leads(t *testing.T, c client.Client) string {
	t.Helper()
	var lease coordinationv1.Lease
	testenv.Eventually(t, func() error {
		err := c.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: "peercache-operator"}, &lease)
		if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
			err = errors.New("nobody leads")
		}
		return err
	})
	return *lease.Spec.HolderIdentity
}

// admit sends a pod to a replica as the API server does, and returns the patch.
func admit(t *testing.T, c client.Client, address, namespace string) string {
	t.Helper()
	roots, err := configuredCA(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := json.Marshal(&corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "engine", Labels: map[string]string{v1alpha1.LabelInject: "demo"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "sglang", Image: "sglang", Args: []string{"python3", "-m", "sglang.launch_server", "--model-path", "x"},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Namespace: namespace, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: pod},
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Timeout: testenv.Hang, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, ServerName: "peercache-webhook." + systemNamespace + ".svc",
	}}}
	defer browser.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/mutate-v1-pod", bytes.NewReader(review))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Response == nil {
		t.Fatalf("%s answers %v (error %v)", address, answer, err)
	}
	var steps []json.RawMessage
	if err := json.Unmarshal(answer.Response.Patch, &steps); err != nil || !strings.Contains(string(answer.Response.Patch), "--hicache-storage-backend") {
		t.Fatalf("%s does not connect a pod (error %v): %+v", address, err, answer.Response)
	}
	slices.SortFunc(steps, func(a, b json.RawMessage) int { return bytes.Compare(a, b) }) // their order is not defined
	return fmt.Sprintf("%s", steps)
}

// startProcess runs another operator in its own process until the test ends.
func startProcess(t *testing.T, flags ...string) addresses {
	t.Helper()
	config := testenv.Config()
	return startProcessAs(t, &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}, ownRights,
		append(flags, "--namespace="+systemNamespace)...)
}

// startProcessAs runs it with the rights of another ServiceAccount.
func startProcessAs(t *testing.T, server *clientcmdapi.Cluster, account rest.ImpersonationConfig, flags ...string) addresses {
	t.Helper()
	probes, webhook := freePort(t), freePort(t)
	local := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	folder := t.TempDir()
	config := testenv.Config()
	kubeconfig := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"x": server},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"x": {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Impersonate: account.UserName, ImpersonateGroups: account.Groups,
		}},
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "x", AuthInfo: "x"}}, CurrentContext: "x",
	}
	file := filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfig, file); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], append(flags, "--leader-elect",
		"--dataplane-image=dataplane:1", "--client-image=client:1", "--metrics-bind-address=0",
		"--health-probe-bind-address="+local(probes), fmt.Sprintf("--webhook-port=%d", webhook))...)
	command.Env = []string{asOperator + "=1", "KUBECONFIG=" + file, "TMPDIR=" + folder}
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		err := command.Process.Signal(syscall.SIGTERM)
		select {
		case status := <-ended:
			err = errors.Join(err, status)
		case <-time.After(testenv.Hang):
			err = errors.Join(err, errors.New("it does not stop"), command.Process.Kill(), <-ended)
		}
		if err != nil || t.Failed() {
			t.Errorf("the operator in a process of its own: %v\n%s", err, log.String())
		}
	})
	return addresses{probes: local(probes), webhook: local(webhook)}
}
