// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/otlp"
	"github.com/peercache/peercache/internal/ports"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/plan"
)

const systemNamespace = "peercache-system"

func TestMain(m *testing.M) {
	if os.Getenv(asOperator) != "" {
		main()
		return
	}
	os.Exit(testenv.Main(m))
}

// TestOperatorWithItsOwnRights runs the whole operator as its own ServiceAccount, with only the rights in config.
func TestOperatorWithItsOwnRights(t *testing.T) {
	c := testenv.Client(t)
	prepare(t, c)
	address := start(t)
	t.Run("becomes ready with a certificate that the API server can verify", func(t *testing.T) {
		testCertificate(t, c, address)
	})
	t.Run("reconciles what it watches", func(t *testing.T) { testWatches(t, c) })
	t.Run("sends spans of that", func(t *testing.T) { testTraces(t, address.collector) })
	t.Run("watches machines and what rails refer to", func(t *testing.T) { testPreflight(t, c) })
	t.Run("finds SGLang pods that were missed and recreates them on request", func(t *testing.T) { testMissedPods(t, c) })
	t.Run("makes a new certificate when the Secret is deleted", func(t *testing.T) { testRotation(t, c, address) })
	t.Run("elects a leader, beside which another answers the webhook", func(t *testing.T) { testStandby(t, c, address) })
}

// ownRights impersonates the operator's ServiceAccount.
var ownRights = rest.ImpersonationConfig{
	UserName: "system:serviceaccount:" + systemNamespace + ":peercache-operator",
	Groups:   []string{"system:serviceaccounts", "system:authenticated"},
}

// addresses are the addresses of the running operator.
type addresses struct {
	probes, webhook string
	collector       *otlp.Collector // receives its spans, or nil
}

// prepare installs config/rbac, all of config/rights and a webhook configuration without a CA. It removes what the operator of
// another test made.
func prepare(t *testing.T, c client.Client) {
	t.Helper()
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}},
		&admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "peercache-inject"},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: "inject.peercache.io",
				ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{
					Namespace: systemNamespace, Name: "peercache-webhook", Path: new("/mutate-v1-pod"),
				}},
				FailurePolicy:           new(admissionv1.Ignore),
				SideEffects:             new(admissionv1.SideEffectClassNone),
				AdmissionReviewVersions: []string{"v1"},
				ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: v1alpha1.LabelInject, Operator: metav1.LabelSelectorOpExists}}},
			}},
		},
	}
	for _, file := range rightsFiles(t) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); err != nil {
				break
			}
			objects = append(objects, object)
		}
	}
	made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "peercache-webhook-cert"}}
	if err := client.IgnoreNotFound(c.Delete(t.Context(), made)); err != nil {
		t.Fatal(err)
	}
	if err := client.IgnoreNotFound(c.Delete(t.Context(), objects[1])); err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), object)); err != nil {
			t.Fatalf("creating %s: %v", object.GetName(), err)
		}
	}
}

// rightsFiles are the manifests of all optional rights of the operator.
func rightsFiles(t *testing.T) []string {
	t.Helper()
	features, err := filepath.Glob("../config/rights/*/[rb]*.yaml")
	if err != nil || len(features) < 10 {
		t.Fatalf("files in config/rights: %q (error %v)", features, err)
	}
	return append(features, "../config/rbac/serviceaccount.yaml", "../config/rbac/role.yaml", "../config/rbac/bindings.yaml")
}

// start runs the operator until the test ends.
func start(t *testing.T) addresses {
	t.Helper()
	probes, webhook, collector := freePort(t), freePort(t), otlp.Start(t)
	config := options{
		tracing:        collector.URL,
		dataplaneImage: "dataplane:1", clientImage: "client:1", namespace: systemNamespace, leaderElect: true,
		metricsAddress: "0", probeAddress: fmt.Sprintf("127.0.0.1:%d", probes), webhookPort: webhook, webhook: webhookEnabled,
	}
	kubeconfig := testenv.Config()
	kubeconfig.Impersonate = ownRights
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, kubeconfig, config) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the operator stopped with %v", err)
			}
		case <-time.After(testenv.Hang):
			t.Error("the operator does not stop")
		}
	})
	return addresses{config.probeAddress, fmt.Sprintf("127.0.0.1:%d", webhook), collector}
}

func testCertificate(t *testing.T, c client.Client, at addresses) {
	testenv.Eventually(t, func() error { return probe(t.Context(), at.probes, "/readyz") })
	if err := probe(t.Context(), at.probes, "/healthz"); err != nil {
		t.Error(err)
	}
	if err := handshake(t.Context(), c, at.webhook); err != nil {
		t.Error(err)
	}
}

// testTraces looks for the span of the request that applied a DaemonSet, within a step of a reconcile.
func testTraces(t *testing.T, collector *otlp.Collector) {
	testenv.Eventually(t, func() error {
		spans := map[string]otlp.Span{}
		for _, span := range collector.Spans() {
			spans[string(span.SpanId)] = span
		}
		for _, request := range spans {
			step := spans[string(request.ParentSpanId)]
			pass := spans[string(step.GetParentSpanId())]
			if strings.Contains(otlp.Attributes(request.Attributes)["url.path"], "/daemonsets/demo-") && request.Name == http.MethodPatch &&
				step.GetName() == "apply" && pass.GetName() == "reconcile" &&
				otlp.Attributes(pass.Attributes)["peercache.cluster"] == "demo" && pass.Sender["service.name"] == "peercache-operator" {
				return nil
			}
		}
		return fmt.Errorf("of %d spans none is of a request that applies a DaemonSet", len(spans))
	})
}

func testPreflight(t *testing.T, c client.Client) {
	namespace := testenv.Namespace(t)
	cluster := &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
		Spec: v1alpha1.PeerCacheClusterSpec{
			Memory: v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi")},
			Nodes:  v1alpha1.NodesSpec{Selector: map[string]string{"test": namespace}},
			Rails: []v1alpha1.Rail{{
				Name: "a", Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: "nic"},
				Network: &v1alpha1.RailNetwork{Name: "fabric"},
			}},
		},
	}
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	reason := func(kind, want string) func() error {
		return func() error {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
				return err
			}
			condition := meta.FindStatusCondition(cluster.Status.Conditions, kind)
			if condition == nil || condition.Reason != want {
				return fmt.Errorf("%s is %+v, want reason %s", kind, condition, want)
			}
			return nil
		}
	}
	if testenv.Minor(t) < 34 {
		testenv.Eventually(t, reason("DevicesAvailable", "DRAUnavailable"))
	} else {
		testenv.Eventually(t, reason("DevicesAvailable", "ClaimTemplateMissing"))
	}
	testenv.Eventually(t, reason("NetworksResolved", "MultusMissing"))
	testenv.Eventually(t, reason("InjectionReady", "WebhookReady"))

	change := func(change func(*v1alpha1.PeerCacheClusterSpec)) { // a patch, because the operator writes the status meanwhile
		before := cluster.DeepCopy()
		change(&cluster.Spec)
		if err := c.Patch(t.Context(), cluster, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails = nil })
	testenv.Eventually(t, reason("DevicesAvailable", "NoMachines"))
	t.Log("a machine that joins is seen at once")
	machine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{
		"test": namespace, corev1.LabelOSStable: "linux",
	}}}
	if err := c.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	ready := machine.DeepCopy()
	ready.Spec.Taints = nil // the API server adds the taint not-ready to a new machine
	if err := c.Patch(t.Context(), ready, client.MergeFrom(machine)); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, reason("DevicesAvailable", "CPUShort"))

	t.Log("what is asked for besides the nodes comes and goes")
	testenv.InstallNetworkPolicies(t)
	kinds := envtest.CRDInstallOptions{Paths: []string{
		"reconcile/testdata/network-attachment-definition.yaml", "reconcile/testdata/prometheus-operator.yaml",
	}}
	if _, err := envtest.InstallCRDs(testenv.Config(), kinds); err != nil {
		t.Fatal(err)
	}
	change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Rails = []v1alpha1.Rail{{Name: "a", Attachment: v1alpha1.AttachmentSharedDevicePlugin, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "rdma/a"}, Network: &v1alpha1.RailNetwork{Name: "fabric"}}}
		s.Provision.DevicePlugin = &v1alpha1.DevicePluginSpec{Resources: []v1alpha1.SharedResource{
			{Rail: "a", Selectors: v1alpha1.PortSelectors{Vendors: []string{"15b3"}}}}}
		s.Monitoring.Scrape, s.Monitoring.Rules = v1alpha1.ScrapeServiceMonitor, v1alpha1.RulesPrometheusRule
		s.Provision.Networks = []v1alpha1.ProvisionedNetwork{
			{Rail: "a", Type: v1alpha1.NetworkMacvlan, Interface: "ens1", IPAM: v1alpha1.IPAMSpec{Range: "10.1.0.0/24"}}}
	})
	object := func(kind schema.GroupVersionKind, name string) client.Object {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetName(name)
		return object
	}
	made := []client.Object{
		object(plan.NetworkKind, "fabric"),
		object(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}, "demo-metrics"),
		object(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"}, "demo-metrics"),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "demo-metrics"}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "demo-device-plugin"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "demo-device-plugin"}}}
	for _, object := range made {
		testenv.Eventually(t, func() error {
			return c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: object.GetName()}, object)
		})
	}
	change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Provision = v1alpha1.ProvisionSpec{}
		s.Monitoring.Scrape, s.Monitoring.Rules = v1alpha1.ScrapeNone, v1alpha1.RulesNone
	})
	for _, object := range made {
		testenv.Eventually(t, func() error {
			err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("%T %s is still there (error %w)", object, object.GetName(), err)
		})
	}
}

// testMissedPods labels a pod after its creation, so that the webhook never saw it.
func testMissedPods(t *testing.T, c client.Client) {
	namespace := testenv.Namespace(t)
	cluster := &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
		Spec:       v1alpha1.PeerCacheClusterSpec{Memory: v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi")}},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "engine",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "engine", UID: "1", Controller: new(true)},
			},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "sglang", Image: "sglang", Args: []string{"python3", "-m", "sglang.launch_server", "--model-path", "x"},
		}}},
	}
	for _, object := range []client.Object{cluster, pod} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	change := func(object client.Object, patch string) {
		if err := c.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	missed := func(want int32, reason string) func() error {
		return func() error {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
				return err
			}
			condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionInjectionReady)
			if cluster.Status.MissedPods != want || condition == nil || condition.Reason != reason {
				return fmt.Errorf("%d missed pods, %+v", cluster.Status.MissedPods, condition)
			}
			return nil
		}
	}
	testenv.Eventually(t, missed(0, "WebhookReady"))
	change(pod, `{"metadata":{"labels":{"peercache.io/inject":"demo"}}}`)
	testenv.Eventually(t, missed(1, "PodsMissed"))
	change(cluster, `{"spec":{"injection":{"missedPods":"Recreate"}}}`)
	testenv.Eventually(t, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
			return fmt.Errorf("pod engine is still there (error %w)", err)
		}
		return nil
	})
	testenv.Eventually(t, missed(0, "WebhookReady"))
}

func testWatches(t *testing.T, c client.Client) {
	namespace := testenv.Namespace(t)
	cluster := &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
		Spec:       v1alpha1.PeerCacheClusterSpec{Memory: v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi")}},
	}
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	read := func(name string, into client.Object) error {
		return c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into)
	}
	daemonSet := &appsv1.DaemonSet{}
	testenv.Eventually(t, func() error { return read("demo-default", daemonSet) })

	t.Log("a deleted ConfigMap comes back")
	config := &corev1.ConfigMap{}
	testenv.Eventually(t, func() error { return read("demo-config", config) })
	before := config.UID
	if err := c.Delete(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if err := read("demo-config", config); err != nil {
			return err
		}
		if config.UID == before {
			return errors.New("it is still the old one")
		}
		return nil
	})

	t.Log("a label that is taken from an object comes back, although the cache then loses sight of it")
	service := &corev1.Service{}
	testenv.Eventually(t, func() error { return read("demo-discovery", service) })
	service.Labels = nil
	if err := c.Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if err := read("demo-discovery", service); err != nil {
			return err
		}
		if service.Labels[v1alpha1.LabelCluster] != "demo" {
			return errors.New("the label is missing")
		}
		return nil
	})

	t.Log("a pod that runs becomes a discovery host")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "demo-default-x", Labels: daemonSet.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(daemonSet, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Spec: daemonSet.Spec.Template.Spec,
	}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "192.0.2.1", PodIPs: []corev1.PodIP{{IP: "192.0.2.1"}}}
	if err := c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if err := read(pod.Name, pod); err != nil {
			return err
		}
		if pod.Labels[v1alpha1.LabelDiscovery] != v1alpha1.DiscoveryHost {
			return errors.New("the pod is not labelled")
		}
		return nil
	})

	t.Log("events reach the cluster's description")
	testenv.Eventually(t, func() error {
		var events corev1.EventList
		if err := c.List(t.Context(), &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Name == "demo" && event.Reason == "Accepted" {
				return nil
			}
		}
		return fmt.Errorf("no event among %d", len(events.Items))
	})
}

func testRotation(t *testing.T, c client.Client, at addresses) {
	key := client.ObjectKey{Namespace: systemNamespace, Name: "peercache-webhook-cert"}
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	before := string(secret.Data["ca.crt"])
	if err := c.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if err := c.Get(t.Context(), key, secret); err != nil {
			return err
		}
		if ca := string(secret.Data["ca.crt"]); ca == "" || ca == before {
			return errors.New("there is no new CA yet")
		}
		return handshake(t.Context(), c, at.webhook)
	})
}

// handshake connects to the webhook as the API server does: with the CA of the webhook configuration and the name of the
// Service.
func handshake(ctx context.Context, c client.Client, address string) error {
	roots, err := configuredCA(ctx, c)
	if err != nil {
		return err
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "peercache-webhook.peercache-system.svc"}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// configuredCA is the CA in the webhook configuration.
func configuredCA(ctx context.Context, c client.Client) (*x509.CertPool, error) {
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := c.Get(ctx, client.ObjectKey{Name: "peercache-inject"}, configuration); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(configuration.Webhooks[0].ClientConfig.CABundle) {
		return nil, errors.New("the webhook configuration has no CA")
	}
	return roots, nil
}

func probe(ctx context.Context, address, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", strings.TrimPrefix(path, "/"), response.Status)
	}
	return nil
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := ports.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
