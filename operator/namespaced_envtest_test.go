// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
)

// The operator of this test has names of its own, so that rights of other tests do not reach it.
const (
	watched        = "inference"
	namespacedHome = "peercache-namespaced"
	namespacedName = "namespaced-operator"
)

var namespacedRights = rest.ImpersonationConfig{
	UserName: "system:serviceaccount:" + namespacedHome + ":" + namespacedName, Groups: []string{"system:serviceaccounts", "system:authenticated"},
}

// TestNamespacedOperator runs the whole operator with the rights of config/overlays/namespaced, and no others.
func TestNamespacedOperator(t *testing.T) {
	c := testenv.Client(t)
	prepareNamespaced(t, c)
	elsewhere := testenv.Namespace(t)
	refused, probes := startNamespaced(t)

	testenv.Eventually(t, func() error { return probe(t.Context(), probes, "/readyz") })
	here, there := newDemo(t, c, watched), newDemo(t, c, elsewhere)
	testenv.Eventually(t, func() error {
		return c.Get(t.Context(), client.ObjectKey{Namespace: watched, Name: "demo-default"}, &appsv1.DaemonSet{})
	})
	t.Run("says what it cannot look at", func(t *testing.T) {
		testenv.Eventually(t, func() error {
			return errors.Join(
				hasCondition(t, c, here, v1alpha1.ConditionDevicesAvailable, "MachinesUnread", "--watch-namespaces"),
				hasCondition(t, c, here, v1alpha1.ConditionInjectionReady, "WebhookReady", "the namespaces that the operator watches (inference), and in no other"),
				hasCondition(t, c, here, v1alpha1.ConditionConfigAccepted, "Accepted", ""))
		})
	})
	t.Run("follows what changes, and sees pods that were missed", func(t *testing.T) {
		pods := []*corev1.Pod{newMissedPod("one", ""), newMissedPod("stranger", elsewhere)}
		for _, pod := range pods {
			if err := c.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		testenv.Eventually(t, func() error {
			return hasCondition(t, c, here, v1alpha1.ConditionInjectionReady, "PodsMissed", "one")
		})
		if err := c.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: watched, Name: "demo-config"}}); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, func() error {
			return c.Get(t.Context(), client.ObjectKey{Namespace: watched, Name: "demo-config"}, &corev1.ConfigMap{})
		})
	})
	t.Run("leaves other namespaces alone", func(t *testing.T) { // by now it would have done something
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(there), there); err != nil {
			t.Fatal(err)
		}
		all := &appsv1.DaemonSetList{}
		if err := c.List(t.Context(), all, client.InNamespace(elsewhere)); err != nil || len(all.Items) > 0 || len(there.Status.Conditions) > 0 {
			t.Errorf("%d DaemonSets, conditions %v (error %v)", len(all.Items), there.Status.Conditions, err)
		}
	})
	t.Run("has no rights there, nor to what belongs to no namespace", func(t *testing.T) { hasNoRights(t, elsewhere) })
	t.Run("asks for nothing that it may not have", func(t *testing.T) { onlyPolicies(t, refused) })
}

// TestNamespacedOperatorWithCertManager: where somebody else keeps the certificate, the operator may read its own webhook
// configuration and no other, as the chart has it then.
func TestNamespacedOperatorWithCertManager(t *testing.T) {
	c := testenv.Client(t)
	prepareNamespaced(t, c)
	role := &rbacv1.ClusterRole{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: namespacedName}, role); err != nil {
		t.Fatal(err)
	}
	role.Rules = role.Rules[:1]
	role.Rules[0].Verbs = []string{"get", "list", "watch"}
	if err := c.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	folder, _ := givenCertificate(t, "peercache-webhook."+namespacedHome+".svc")
	refused, probes := startNamespaced(t, "--webhook-certificates="+folder)
	testenv.Eventually(t, func() error { return probe(t.Context(), probes, "/readyz") })
	cluster := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Namespace: watched, Name: "with-cert-manager"}}
	cluster.Spec.Memory.Pool = resource.MustParse("1Gi")
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error { // nobody has written a CA
		return hasCondition(t, c, cluster, v1alpha1.ConditionInjectionReady, "WebhookUntrusted", "")
	})
	onlyPolicies(t, refused)
}

// onlyPolicies checks that the API server refuses the operator nothing but policies: it finds out whether it has that right.
func onlyPolicies(t *testing.T, refused *refusals) {
	t.Helper()
	asked := false
	for _, path := range refused.list() {
		if strings.Contains(path, "mutatingadmissionpolic") {
			asked = true
			continue
		}
		t.Errorf("refused: %s", path)
	}
	if !asked && testenv.Minor(t) >= 36 { // older ones do not know them
		t.Error("nothing was seen")
	}
}

func hasNoRights(t *testing.T, elsewhere string) {
	config := testenv.Config()
	config.Impersonate = namespacedRights
	own, err := client.New(config, client.Options{Scheme: testenv.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() error{
		"machines":          func() error { return own.List(t.Context(), &corev1.NodeList{}) },
		"drivers":           func() error { return own.List(t.Context(), &storagev1.CSIDriverList{}) },
		"namespaces":        func() error { return own.List(t.Context(), &corev1.NamespaceList{}) },
		"another namespace": func() error { return own.Get(t.Context(), client.ObjectKey{Name: elsewhere}, &corev1.Namespace{}) },
		"all clusters":      func() error { return own.List(t.Context(), &v1alpha1.PeerCacheClusterList{}) },
		"clusters elsewhere": func() error {
			return own.List(t.Context(), &v1alpha1.PeerCacheClusterList{}, client.InNamespace(elsewhere))
		},
		"pods elsewhere":    func() error { return own.List(t.Context(), &corev1.PodList{}, client.InNamespace(elsewhere)) },
		"Secrets elsewhere": func() error { return own.List(t.Context(), &corev1.SecretList{}, client.InNamespace(elsewhere)) },
		"to make objects elsewhere": func() error {
			return own.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "x"}})
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: error %v, want Forbidden", name, err)
		}
	}
	if err := own.List(t.Context(), &v1alpha1.PeerCacheClusterList{}, client.InNamespace(watched)); err != nil {
		t.Errorf("where it works: %v", err)
	}
}

func newDemo(t *testing.T, c client.Client, namespace string) *v1alpha1.PeerCacheCluster {
	t.Helper()
	cluster := &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
		Spec:       v1alpha1.PeerCacheClusterSpec{Memory: v1alpha1.MemorySpec{Pool: resource.MustParse("1Gi")}},
	}
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// newMissedPod is a pod that no webhook saw, of the cluster demo in its own or another namespace.
func newMissedPod(name, clusterNamespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: watched, Name: name, Labels: map[string]string{v1alpha1.LabelInject: "demo"},
			Annotations: map[string]string{v1alpha1.AnnotationClusterNamespace: clusterNamespace},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sglang", Image: "sglang"}}},
	}
}

func hasCondition(t *testing.T, c client.Client, cluster *v1alpha1.PeerCacheCluster, kind, reason, message string) error {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		return err
	}
	condition := meta.FindStatusCondition(cluster.Status.Conditions, kind)
	if condition == nil || condition.Reason != reason || !strings.Contains(condition.Message, message) {
		return fmt.Errorf("%s is %+v, want %s with %q", kind, condition, reason, message)
	}
	return nil
}

// prepareNamespaced installs the rights and the webhook configuration of config/overlays/namespaced.
func prepareNamespaced(t *testing.T, c client.Client) {
	t.Helper()
	kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	text, err := exec.CommandContext(t.Context(), kubectl, "kustomize", "../config/overlays/namespaced").Output()
	if err != nil {
		t.Fatalf("%s kustomize: %v: `make test-envtest` builds it", kubectl, err)
	}
	text = []byte(strings.NewReplacer("peercache-operator", namespacedName, systemNamespace, namespacedHome).Replace(string(text)))
	for _, name := range []string{watched, namespacedHome} {
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})); err != nil {
			t.Fatal(err)
		}
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); err != nil {
			break
		}
		switch object.GetKind() {
		case "MutatingWebhookConfiguration": // another test may have left its own
			if err := client.IgnoreNotFound(c.Delete(t.Context(), object.DeepCopy())); err != nil {
				t.Fatal(err)
			}
		case "ClusterRole": // another test may have changed it
			if err := client.IgnoreNotFound(c.Delete(t.Context(), object.DeepCopy())); err != nil {
				t.Fatal(err)
			}
		case "ServiceAccount", "Role", "RoleBinding", "ClusterRoleBinding":
		default:
			continue
		}
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), object)); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// startNamespaced runs the operator until the test ends. It returns what the API server refuses it, and where it is probed.
func startNamespaced(t *testing.T, flags ...string) (*refusals, string) {
	t.Helper()
	refused := &refusals{}
	// Between both, because the operator is a process of its own: controllers of one name cannot be twice in one.
	between := httptest.NewServer(refused.proxy(t))
	t.Cleanup(between.Close)
	address := startProcessAs(t, &clientcmdapi.Cluster{Server: between.URL}, namespacedRights,
		append(flags, "--namespace="+namespacedHome, "--watch-namespaces="+watched)...)
	return refused, address.probes
}

// refusals are the requests that the API server answered with Forbidden.
type refusals struct {
	mu    sync.Mutex
	paths []string
}

func (r *refusals) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.paths)
}

// proxy passes requests to the API server as the administrator, who impersonates whom the requests name.
func (r *refusals) proxy(t *testing.T) http.Handler {
	t.Helper()
	target, err := url.Parse(testenv.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1 // watches
	if proxy.Transport, err = rest.TransportFor(testenv.Config()); err != nil {
		t.Fatal(err)
	}
	proxy.ModifyResponse = func(response *http.Response) error {
		if response.StatusCode == http.StatusForbidden {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.paths = append(r.paths, response.Request.Method+" "+response.Request.URL.Path)
		}
		return nil
	}
	return proxy
}
