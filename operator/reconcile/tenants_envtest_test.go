// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// tenantSecret returns the content of the Secret that the operator keeps.
func (b *bench) tenantSecret() string {
	b.Helper()
	return string(b.secret("demo-tenants").Data["secret"])
}

// TestTenantSecretIsDrawnOnce checks that the secret is created before the nodes, and that no operator and no rotation of the
// token changes it.
func TestTenantSecretIsDrawnOnce(t *testing.T) {
	b := newBench(t)
	cluster := b.cluster()
	b.later(0)
	written := b.pass()
	first := b.tenantSecret()
	if len(first) != 64 || first == b.tokens()[0] || !metav1.IsControlledBy(b.secret("demo-tenants"), cluster) {
		t.Fatalf("Secret %+v", b.secret("demo-tenants"))
	}
	if secretsBeforeNodes(written) != 2 {
		t.Errorf("pods would wait for a Secret: %q", written)
	}
	b.expectEventWithout("TenantSecretMade", first)
	b.expectNoWrites()

	version := b.secret("demo-tenants").ResourceVersion
	b.rotate("monday")
	for range 8 {
		b.later(2 * time.Minute)
		b.reconciler.memories = clusterMemories{} // another operator
		b.pass()
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.Token = &v1alpha1.TokenSpec{SecretName: "mine"} })
	b.pass()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Sharing = v1alpha1.SharingCluster })
	b.pass()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Sharing = v1alpha1.SharingNamespace })
	b.passAfterSecretInterval()
	if got := b.secret("demo-tenants"); got.ResourceVersion != version {
		t.Errorf("the Secret was written again: %+v", got)
	}

	t.Log("a Secret that is deleted is made anew")
	b.deleteSecret("demo-tenants")
	if got := b.tenantSecret(); got == first || len(got) != 64 {
		t.Errorf("secret %q", got)
	}
}

// TestSharedByTheCluster checks that there is no Secret without tenants, and that mode Plan announces it with tenants.
func TestSharedByTheCluster(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Sharing = v1alpha1.SharingCluster })
	b.pass()
	if b.has("demo-tenants", &corev1.Secret{}) {
		t.Error("there is a secret of tenants")
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Mode, s.Sharing = v1alpha1.ModePlan, v1alpha1.SharingNamespace
	})
	b.pass()
	b.expectPlanned("demo-tenants")
}

// TestTenantSecretOfSomebodyElse checks that the operator never changes a Secret of others, or an invalid one.
func TestTenantSecretOfSomebodyElse(t *testing.T) {
	b := newBench(t)
	theirs := b.foreignSecret("demo-tenants", "secret")
	b.cluster()
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "NameConflict", "choose another metadata.name than that from which demo-tenants follows")
	if got := b.secret("demo-tenants"); got.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("it was changed: %+v", got)
	}
	b.must(b.Delete(b.Context(), theirs))
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")

	b.invalidateSecret("demo-tenants", "secret")
	b.condition("ConfigAccepted", metav1.ConditionFalse, "TenantSecretInvalid", "write the previous secret into it again")
	if got := b.tenantSecret(); got != "short" {
		t.Errorf("it was changed: %q", got)
	}
}
