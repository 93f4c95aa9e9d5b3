// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/apiserver"
	"github.com/peercache/peercache/operator/certs"
)

const (
	systemNamespace = "peercache-system"
	// operatorUser is the ServiceAccount of config/rbac.
	operatorUser = "system:serviceaccount:" + systemNamespace + ":peercache-operator"
)

// controlPlane is an API server with the manifests of the operator.
type controlPlane struct {
	environment *envtest.Environment
	client      client.Client // a client with all rights
	audit       *auditLog
	kubeconfig  string // file for the operator
}

// startControlPlane needs KUBEBUILDER_ASSETS, the folder of kube-apiserver and etcd. folder is for the files of the
// run.
func startControlPlane(ctx context.Context, c config, folder string, webhookPort int) (*controlPlane, error) {
	policy, log := filepath.Join(folder, "audit-policy.yaml"), filepath.Join(folder, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("writing the audit policy: %w", err)
	}
	environment, admin, err := apiserver.Start(func() *envtest.Environment {
		environment := &envtest.Environment{
			CRDDirectoryPaths: []string{
				filepath.Join(c.root, "config", "crd"),
				filepath.Join(c.root, "operator", "reconcile", "testdata", "network-attachment-definition.yaml"),
			},
			ErrorIfCRDPathMissing: true,
		}
		// The default mode of the audit log, blocking, writes before a request ends.
		environment.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", log)
		return environment
	})
	if err != nil {
		return nil, err
	}
	w := &controlPlane{environment: environment, audit: newAuditLog(log),
		kubeconfig: filepath.Join(folder, "operator.kubeconfig")}
	if err := w.install(ctx, c, admin, webhookPort); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

func (w *controlPlane) stop() error {
	if err := w.environment.Stop(); err != nil {
		return fmt.Errorf("stopping kube-apiserver and etcd: %w", err)
	}
	return nil
}

func (w *controlPlane) install(ctx context.Context, c config, admin *rest.Config, webhookPort int) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	admin.QPS, admin.UserAgent = -1, "peercache-scale"
	var err error
	if w.client, err = client.New(admin, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	user, err := w.environment.AddUser(envtest.User{
		Name: operatorUser, Groups: []string{"system:serviceaccounts", "system:authenticated"}}, nil)
	if err != nil {
		return fmt.Errorf("making the operator's user: %w", err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return fmt.Errorf("making the operator's kubeconfig: %w", err)
	}
	if err := os.WriteFile(w.kubeconfig, kubeconfig, 0o600); err != nil {
		return fmt.Errorf("writing the operator's kubeconfig: %w", err)
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: servingNamespace}},
		// A Service of type ExternalName leads the API server from the webhook's Service to this machine.
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: certs.ServiceName},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
		},
	}
	for _, file := range []string{
		"rbac/serviceaccount.yaml", "rbac/role.yaml", "rbac/bindings.yaml", "rights/nodes/role.yaml", "rights/nodes/binding.yaml",
		"rights/pods/role.yaml", "rights/pods/binding.yaml",
		"rights/tokens/role.yaml", "rights/tokens/binding.yaml",
	} {
		found, err := readObjects(filepath.Join(c.root, "config", file))
		if err != nil {
			return err
		}
		objects = append(objects, found...)
	}
	webhook, err := readWebhook(c.root, webhookPort)
	if err != nil {
		return err
	}
	for _, object := range append(objects, webhook) {
		if err := w.client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// readWebhook returns config/webhook/webhook.yaml with another port.
func readWebhook(root string, port int) (client.Object, error) {
	objects, err := readObjects(filepath.Join(root, "config", "webhook", "webhook.yaml"))
	if err != nil {
		return nil, err
	}
	webhook := &admissionv1.MutatingWebhookConfiguration{}
	content, ok := objects[0].(*unstructured.Unstructured)
	if !ok {
		return nil, errors.New("config/webhook/webhook.yaml: no object")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, webhook); err != nil {
		return nil, fmt.Errorf("reading config/webhook/webhook.yaml: %w", err)
	}
	for i := range webhook.Webhooks {
		webhook.Webhooks[i].ClientConfig.Service.Port = new(int32(port)) //nolint:gosec // it is a port
	}
	return webhook, nil
}

func readObjects(file string) ([]client.Object, error) {
	content, err := os.ReadFile(file) //nolint:gosec // a file of the repository
	if err != nil {
		return nil, fmt.Errorf("reading %s (--root): %w", file, err)
	}
	var objects []client.Object
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
