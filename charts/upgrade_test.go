// SPDX-License-Identifier: Apache-2.0

//go:build render && envtest

package charts

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/apiserver"
)

// TestHelmOnRealAPIServer installs the chart, upgrades it and takes it away again.
func TestHelmOnRealAPIServer(t *testing.T) {
	c, try := startAPIServer(t)
	helm := func(args ...string) string {
		t.Helper()
		stdout, err := try(args...)
		if err != nil {
			t.Fatal(err)
		}
		return stdout
	}

	notes := helm("install", release, "peercache", "--create-namespace")
	for _, part := range []string{"kind: PeerCacheCluster", "peercache.io/inject: kv", "-n peercache-system rollout status"} {
		if !strings.Contains(notes, part) {
			t.Errorf("the notes lack %q:\n%s", part, notes)
		}
	}
	cache := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Name: "kv", Namespace: "default"}}
	applyNotes(t, c, notes, cache)

	// What the operator does to the webhook configuration, and a definition as an older release left it.
	webhook := webhookConfiguration(t, c)
	ca, _, err := cert.GenerateSelfSignedCertKey("peercache", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	webhook.Webhooks[0].ClientConfig.CABundle = ca
	if err := c.Update(t.Context(), webhook, client.FieldOwner("peercache-operator")); err != nil {
		t.Fatal(err)
	}
	older := t.TempDir()
	copyChart(t, older)
	crd := definition(t, c)
	text := read(t, filepath.Join(older, "files/crd/peercache.io_peercacheclusters.yaml"))
	write(t, filepath.Join(older, "files/crd/peercache.io_peercacheclusters.yaml"),
		strings.Replace(text, "- pcc\n", "- pcc\n    - oldname\n", 1))
	helm("upgrade", release, older)
	if names := definition(t, c).Spec.Names.ShortNames; len(names) != 2 {
		t.Fatalf("the altered chart gave the definition the short names %q", names)
	}

	helm("upgrade", release, "peercache", "--set", "replicas=3,webhook.timeoutSeconds=7")
	if names := definition(t, c).Spec.Names.ShortNames; fmt.Sprint(names) != fmt.Sprint(crd.Spec.Names.ShortNames) {
		t.Errorf("the upgrade left the definition with the short names %q", names)
	}
	webhook = webhookConfiguration(t, c)
	if !bytes.Equal(webhook.Webhooks[0].ClientConfig.CABundle, ca) {
		t.Errorf("the upgrade changed caBundle to %q", webhook.Webhooks[0].ClientConfig.CABundle)
	}
	if *webhook.Webhooks[0].TimeoutSeconds != 7 {
		t.Errorf("the upgrade left timeoutSeconds at %d", *webhook.Webhooks[0].TimeoutSeconds)
	}
	deployment := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "peercache-operator"}, deployment); err != nil {
		t.Fatal(err)
	}
	if *deployment.Spec.Replicas != 3 {
		t.Errorf("the upgrade left %d replicas", *deployment.Spec.Replicas)
	}

	testMonitors(t, c, try)

	helm("uninstall", release)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(cache), cache); err != nil {
		t.Errorf("uninstalling took the cache away: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(webhook), webhook); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("uninstalling left the webhook configuration (error %v)", err)
	}
	helm("install", release, "peercache")
}

// testMonitors: without the kinds of the Prometheus Operator Helm says so and changes nothing. With them alerts come with a
// warning, unless something has the operator scraped.
func testMonitors(t *testing.T, c client.Client, helm func(args ...string) (string, error)) {
	t.Helper()
	for _, value := range []string{"podMonitors", "serviceMonitor", "rules"} {
		_, err := helm("upgrade", release, "peercache", "--set", "replicas=5,metrics."+value+".enabled=true")
		if err == nil || !strings.Contains(err.Error(), "ensure CRDs are installed first") {
			t.Errorf("%s without their kinds: %v", value, err)
		}
	}
	deployment := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "peercache-operator"}, deployment); err != nil {
		t.Fatal(err)
	}
	if *deployment.Spec.Replicas == 5 {
		t.Error("what was refused was done in part")
	}
	for _, kind := range parseObjects(t, read(t, "../operator/reconcile/testdata/prometheus-operator.yaml")) {
		if err := c.Create(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	const warning = "PeerCacheOperatorDown"
	for values, warned := range map[string]bool{
		"metrics.rules.enabled=true":                                     true,
		"metrics.rules.enabled=true,metrics.podMonitors.enabled=true":    false,
		"metrics.rules.enabled=true,metrics.serviceMonitor.enabled=true": false,
		"metrics.podMonitors.enabled=true":                               false,
	} {
		notes := ""
		onceServed(t, func() (err error) {
			notes, err = helm("upgrade", release, "peercache", "--set", values)
			return err
		})
		if strings.Contains(notes, warning) != warned {
			t.Errorf("%s: want a warning: %v\n%s", values, warned, notes)
		}
	}
}

// onceServed tries until the API server has taken in kinds that were just defined: it does so a moment after it has stored them.
func onceServed(t *testing.T, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Second) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// startAPIServer also returns a function that runs helm against it.
func startAPIServer(t *testing.T) (client.Client, func(args ...string) (string, error)) {
	t.Helper()
	if os.Getenv(apiserver.Assets) == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run `make test-chart-upgrade`, or name the folder of kube-apiserver and etcd")
	}
	environment, config, err := apiserver.Start(func() *envtest.Environment { return &envtest.Environment{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stopping kube-apiserver and etcd: %v", err)
		}
	})
	user, err := environment.AddUser(envtest.User{Name: "helm", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, string(kubeconfig))

	scheme := clientgoscheme.Scheme
	for _, add := range []func() error{
		func() error { return v1alpha1.AddToScheme(scheme) },
		func() error { return apiextensionsv1.AddToScheme(scheme) },
	} {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	binary := program(t, "HELM", "helm")
	return c, func(args ...string) (string, error) {
		args = append(args, "--kubeconfig", file, "--namespace", namespace)
		stdout, stderr, err := run(t.Context(), binary, args...)
		if err != nil {
			err = fmt.Errorf("helm %q: %w: %s", args, err, stderr)
		}
		return stdout, err
	}
}

// applyNotes creates the object that the notes tell users to create.
func applyNotes(t *testing.T, c client.Client, notes string, object *v1alpha1.PeerCacheCluster) {
	t.Helper()
	_, manifest, _ := strings.Cut(notes, "<<EOF\n")
	manifest, _, ok := strings.Cut(manifest, "EOF\n")
	if !ok {
		t.Fatalf("the notes hold no manifest:\n%s", notes)
	}
	all := parseObjects(t, manifest)
	wanted := all.get(t, "PeerCacheCluster", object.Name)
	wanted.SetNamespace(object.Namespace)
	onceServed(t, func() error {
		if err := c.Create(t.Context(), wanted); err != nil {
			return fmt.Errorf("creating what the notes recommend: %w", err)
		}
		return nil
	})
}

func webhookConfiguration(t *testing.T, c client.Client) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	object := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "peercache-inject"}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

func definition(t *testing.T, c client.Client) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	object := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "peercacheclusters.peercache.io"}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

func copyChart(t *testing.T, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS("peercache")); err != nil {
		t.Fatal(err)
	}
}
