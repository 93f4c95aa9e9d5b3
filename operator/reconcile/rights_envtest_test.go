// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/rights"
)

// newRestricted returns a bench whose operator has the rights of config/rbac, and the given roles of config/rights.
func newRestricted(t *testing.T, features ...string) *bench {
	t.Helper()
	b := newBench(t)
	reading := readRole(t, "../../config/rbac/role.yaml")
	b.must(client.IgnoreAlreadyExists(b.Create(t.Context(), reading)))
	b.must(b.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: b.operator()}, Subjects: b.subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reading.Name},
	}))
	b.waitForRights(reading, true)
	for _, feature := range features {
		b.grant(feature)
	}
	config := testenv.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: b.operator(), Groups: []string{"system:authenticated"}}
	config.Wrap(b.writes.watch)
	restricted, err := client.New(config, client.Options{Scheme: testenv.Scheme()})
	b.must(err)
	b.reconciler.Client, b.reconciler.Live = restricted, restricted
	b.reconciler.Injection = inject.Options{ClientImage: "client:1"}
	return b
}

func (b *bench) operator() string { return "operator-of-" + b.namespace }

func (b *bench) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: b.operator()}}
}

// grant binds the role of a feature in the namespace of the cluster, except for kinds without a namespace.
func (b *bench) grant(feature string) {
	b.Helper()
	role := readRole(b.T, "../../config/rights/"+feature+"/role.yaml")
	b.must(client.IgnoreAlreadyExists(b.Create(b.Context(), role)))
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	if feature == "admission-policies" {
		b.must(b.Create(b.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.operator() + "-" + feature}, RoleRef: ref, Subjects: b.subjects(),
		}))
	} else {
		b.must(b.Create(b.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: feature}, RoleRef: ref, Subjects: b.subjects(),
		}))
	}
	b.waitForRights(role, true)
}

// revoke removes the rights of a feature in a namespace.
func (b *bench) revoke(feature string) {
	b.Helper()
	b.must(b.Delete(b.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: feature}}))
	b.waitForRights(readRole(b.T, "../../config/rights/"+feature+"/role.yaml"), false)
}

// waitForRights waits until the API server uses a binding.
func (b *bench) waitForRights(role *rbacv1.ClusterRole, allowed bool) {
	b.Helper()
	rule := role.Rules[0]
	testenv.Eventually(b.T, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: b.operator(), ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: b.namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
			},
		}}
		if err := b.Create(b.Context(), review); err != nil {
			return err
		}
		if review.Status.Allowed != allowed {
			return fmt.Errorf("%s is allowed: %t", role.Name, review.Status.Allowed)
		}
		return nil
	})
}

// readRole reads the ClusterRole, the first document of its file.
func readRole(t *testing.T, file string) *rbacv1.ClusterRole {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(first), role); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return role
}

// expectReason checks the reason of a condition after a pass, which must not fail.
func (b *bench) expectReason(kind, reason string) {
	b.Helper()
	b.pass()
	condition := meta.FindStatusCondition(b.get().Status.Conditions, kind)
	if condition == nil || condition.Reason != reason {
		b.Fatalf("%s is %+v, want reason %s", kind, condition, reason)
	}
}

// expectNoWrites makes a pass that must have no writes and no events.
func (b *bench) expectNoWrites() {
	b.Helper()
	b.events()
	if again, events := b.pass(), b.events(); len(again)+len(events) != 0 {
		b.Errorf("nothing changed, but the operator wrote %q and said %q", again, events)
	}
}

// TestRightsToRunNodes checks that the right to run nodes in one namespace suffices for a cluster there without extras.
func TestRightsToRunNodes(t *testing.T) {
	b := newRestricted(t, "nodes", "pods", "tokens")
	b.cluster()
	b.expectReason("ConfigAccepted", "Accepted")
	b.startPods("default", true)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "")
	if b.hosts() != "a" {
		t.Errorf("discovery hosts are %q", b.hosts())
	}
	b.expectNoWrites()

	err := b.reconciler.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})
	if !apierrors.IsForbidden(err) {
		t.Errorf("writing in another namespace: error %v", err)
	}
}

// TestNoRightsToRunNodes checks that a condition says who can grant the right, and that running nodes stay.
func TestNoRightsToRunNodes(t *testing.T) {
	b := newRestricted(t)
	b.cluster()
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Forbidden", "with this namespace among rbac.namespaces")
	b.grant("tokens")
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Forbidden", "in namespace "+b.namespace+": set rbac.namespaces of the Helm chart")
	b.events()
	b.pass()
	if events := b.events(); len(events) != 0 {
		t.Errorf("said again: %q", events)
	}
	b.grant("nodes")
	b.expectReason("ConfigAccepted", "Accepted")

	b.startPods("default", true) // a pod that would become a discovery host
	b.expectReason("ConfigAccepted", "Forbidden")
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Forbidden", "does not let the operator label pods")
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Forbidden", "or run it with --patch-pods=false")
	b.revoke("nodes")
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.Pool.Add(s.Memory.Pool) })
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Forbidden", "does not let the operator write")
}

// TestNoRightsToTokens checks that nothing is created for a cluster that needs a Secret of the operator. A cluster with its own
// token and shared pages runs.
func TestNoRightsToTokens(t *testing.T) {
	b := newRestricted(t, "nodes")
	b.cluster()
	b.expectReason("ConfigAccepted", "Forbidden")
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Forbidden", "set rbac.tokens.enabled=true of the Helm chart")
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Forbidden", "or name a Secret with a token of your own in security.token.secretName")
	if b.has("demo-default", &appsv1.DaemonSet{}) {
		t.Error("members run without a token")
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.Token = &v1alpha1.TokenSpec{SecretName: "mine"} })
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Forbidden", "set rbac.tokens.enabled=true of the Helm chart")
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Forbidden", "or write sharing: Cluster")
	if b.has("demo-default", &appsv1.DaemonSet{}) {
		t.Error("members run without a secret of tenants")
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Sharing = v1alpha1.SharingCluster })
	b.expectReason("ConfigAccepted", "Accepted")
	b.daemonSet("default")
	b.expectNoWrites()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.Token, s.Sharing = nil, v1alpha1.SharingNamespace })
	b.grant("tokens")
	b.expectReason("PeersAuthenticated", "Token")
	b.secret("demo-tenants")
}

// TestNoRightsToPods: an operator that is told that it may not patch pods never tries. All members host discovery, and members
// with another image get new pods.
func TestNoRightsToPods(t *testing.T) {
	b := newRestricted(t, "nodes", "tokens")
	b.reconciler.Facts.PodsUnpatched = true
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Discovery.Replicas = 1
		s.Image, s.Update = "dataplane:1", v1alpha1.UpdateSpec{Strategy: v1alpha1.UpdateInPlace, MaxUnavailable: new(intstr.FromInt32(2))}
	})
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "update.strategy InPlace replaces pods as RollingUpdate does")
	b.startNumbered()
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "3/3")
	if hosts := b.hosts(); hosts != "a b c" {
		t.Errorf("discovery hosts are %q", hosts)
	}
	b.expectNoWrites()

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	if rolling := b.daemonSet("default").Spec.UpdateStrategy.RollingUpdate; rolling == nil || rolling.MaxUnavailable.IntValue() != 2 {
		t.Errorf("the strategy is %+v", b.daemonSet("default").Spec.UpdateStrategy)
	}
	b.revise(2)
	b.setCounts("default", 3, 0, 3)
	b.expectReason("Progressing", "RollingOut")
	b.expectNoWrites()
	if got := b.images(); !slices.Equal(got, []string{"dataplane:1", "dataplane:1", "dataplane:1"}) {
		t.Errorf("the images of the former pods are %q", got)
	}
	for _, pod := range []string{"a", "b", "c"} {
		err := b.reconciler.Client.Patch(t.Context(), b.pod(pod), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
		if !apierrors.IsForbidden(err) {
			t.Errorf("the operator could patch pod %s: %v", pod, err)
		}
	}

	t.Log("with the right a few pods are hosts, once pods of the new template are there")
	b.grant("pods")
	b.reconciler.Facts.PodsUnpatched = false
	b.pass()
	if _, host := b.daemonSet("default").Spec.Template.Labels[v1alpha1.LabelDiscovery]; host {
		t.Error("pods still begin as discovery hosts")
	}
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "the spec is in effect")
}

func TestNoRightsToMonitor(t *testing.T) {
	installKinds(t, "testdata/prometheus-operator.yaml", schema.GroupKind{Group: rights.MonitoringGroup, Kind: "PrometheusRule"})
	b := newRestricted(t, "nodes", "pods", "tokens")
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Monitoring.Scrape = v1alpha1.ScrapePodMonitor })
	b.expectReason("ConfigAccepted", "Accepted")
	b.condition("MonitoringReady", metav1.ConditionFalse, "Forbidden", "set rbac.monitoring.enabled=true of the Helm chart")
	b.daemonSet("default")
	b.expectNoWrites()
	b.grant("monitoring")
	b.expectReason("MonitoringReady", "Made")

	t.Log("what was made stays when the right is taken away")
	b.revoke("monitoring")
	b.expectReason("MonitoringReady", "Forbidden")
	if made := b.extras(); len(made) != 1 || !b.exists("PodMonitor", "demo-metrics") {
		t.Errorf("status.objects %v, the monitor is there: %t", made, b.exists("PodMonitor", "demo-metrics"))
	}
	b.events()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Monitoring.Scrape = v1alpha1.ScrapeNone })
	b.pass()
	b.condition("MonitoringReady", metav1.ConditionTrue, "NotNeeded", "")
	if events := strings.Join(b.events(), "\n"); !strings.Contains(events, "ObjectLeft") || !strings.Contains(events, "delete it by hand") {
		t.Errorf("events: %s", events)
	}
	b.expectNoWrites()
}

func TestNoRightsToAdmissionPolicies(t *testing.T) {
	testenv.Since(t, policySince, "MutatingAdmissionPolicy in v1")
	b := newRestricted(t, "nodes", "pods", "tokens")
	b.cluster(byPolicy)
	b.expectReason("ConfigAccepted", "Accepted")
	b.condition("InjectionReady", metav1.ConditionFalse, "PolicyForbidden", "set rbac.admissionPolicies.enabled=true of the Helm chart")
	b.daemonSet("default")
	b.expectNoWrites()
	b.grant("admission-policies")
	b.expectReason("InjectionReady", "PolicyReady")
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.By = v1alpha1.InjectionByWebhook })
	b.pass()
	if b.hasPolicy() {
		t.Error("the policy is still there")
	}
}

// TestNoRightsToNetworks: nodes without their networks would not start, so nothing is created for such a spec.
func TestNoRightsToNetworks(t *testing.T) {
	installNetworks(t)
	b := newRestricted(t, "nodes", "pods", "tokens")
	b.cluster(provisioned)
	b.expectReason("ConfigAccepted", "Forbidden")
	b.condition("ConfigAccepted", metav1.ConditionFalse, "Forbidden", "set rbac.networks.enabled=true of the Helm chart")
	if network, err := b.network("rail0"); !apierrors.IsNotFound(err) {
		t.Errorf("network %+v, error %v", network, err)
	}
	b.grant("networks")
	b.expectReason("ConfigAccepted", "Accepted")
	if _, err := b.network("rail0"); err != nil {
		t.Error(err)
	}
}

// TestNoRightsInPlan checks that mode Plan reports missing rights.
func TestNoRightsInPlan(t *testing.T) {
	installKinds(t, "testdata/prometheus-operator.yaml", schema.GroupKind{Group: rights.MonitoringGroup, Kind: "PrometheusRule"})
	b := newRestricted(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Mode, s.Monitoring.Scrape = v1alpha1.ModePlan, v1alpha1.ScrapePodMonitor
	})
	b.expectReason("ConfigAccepted", "Planned")
	if changes := strings.Join(b.get().Status.Plan.Changes, "\n"); !strings.Contains(changes, "PodMonitor "+b.namespace+"/demo-metrics as soon as the operator may") {
		t.Errorf("changes: %s", changes)
	}
}
