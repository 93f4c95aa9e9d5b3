// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// tokens returns the tokens in the Secret that the operator keeps.
func (b *bench) tokens() []string {
	b.Helper()
	return strings.Fields(string(b.secret("demo-token").Data["token"]))
}

// rotate requests a rotation.
func (b *bench) rotate(value string) {
	b.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"peercache.io/rotate-token": "`+value+`"}}}`))
	b.must(b.Patch(b.Context(), b.get(), patch))
}

// TestTokenIsDrawnOnce checks that a cluster gets a token before its nodes, and keeps it.
func TestTokenIsDrawnOnce(t *testing.T) {
	b := newBench(t)
	cluster := b.cluster()
	written := b.pass()
	secret := b.secret("demo-token")
	if tokens := b.tokens(); len(tokens) != 1 || len(tokens[0]) != 64 || !metav1.IsControlledBy(secret, cluster) {
		t.Fatalf("Secret %+v", secret)
	}
	if secretsBeforeNodes(written) == 0 {
		t.Errorf("pods would wait for the Secret: %q", written)
	}
	b.condition("PeersAuthenticated", metav1.ConditionTrue, "Token", "prove the token")
	b.expectEventWithout("TokenMade", b.tokens()[0])
	b.expectNoWrites()

	first := b.tokens()[0]
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.Pool.Add(s.Memory.Pool) })
	b.reconciler.memories = clusterMemories{} // another operator
	b.pass()
	if got := b.tokens(); len(got) != 1 || got[0] != first {
		t.Errorf("the token became %q", got)
	}

	t.Log("a Secret that is deleted is made anew")
	b.deleteSecret("demo-token")
	if got := b.tokens(); len(got) != 1 || got[0] == first {
		t.Errorf("tokens %q", got)
	}
}

// TestTokenRotates checks that each value causes one rotation, step by step, also across operators, and without
// restarts of nodes.
func TestTokenRotates(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.later(0)
	b.pass()
	b.pass()
	old, template := b.tokens()[0], b.daemonSet("default").Generation
	b.events()

	b.rotate("monday")
	if written := b.pass(); len(written) != 2 { // the writes of the Secret and the status
		t.Errorf("wrote %q", written)
	}
	fresh := b.tokens()[1]
	b.condition("PeersAuthenticated", metav1.ConditionTrue, "Rotating", `token rotation "monday" is at step 1 of 3`)
	b.expectEventWithout("Rotating", fresh)
	if b.get().Status.RotatedToken != "" {
		t.Error("the status says that it is over")
	}
	for _, at := range []struct {
		later time.Duration
		want  []string
	}{
		{0, []string{old, fresh}}, {2 * time.Minute, []string{old, fresh}}, {time.Minute, []string{fresh, old}},
		{2 * time.Minute, []string{fresh, old}}, {time.Minute, []string{fresh}},
	} {
		b.later(at.later)
		b.reconciler.memories = clusterMemories{}
		b.pass()
		if got := b.tokens(); !slices.Equal(got, at.want) {
			t.Errorf("%s later the tokens are %q, want %q", at.later, got, at.want)
		}
		b.expectNoWrites()
	}
	b.condition("PeersAuthenticated", metav1.ConditionTrue, "Rotating", "at step 3 of 3")
	b.later(4 * time.Minute)
	b.pass()
	b.condition("PeersAuthenticated", metav1.ConditionTrue, "Token", "")
	if status := b.get().Status; status.RotatedToken != "monday" {
		t.Errorf("the status says %q", status.RotatedToken)
	}
	b.expectNoWrites()
	b.later(time.Hour)
	b.pass()
	if got := b.tokens(); !slices.Equal(got, []string{fresh}) {
		t.Errorf("tokens %q", got)
	}
	if b.daemonSet("default").Generation != template {
		t.Error("members were restarted")
	}
	b.rotate("tuesday")
	b.pass()
	if got := b.tokens(); len(got) != 2 || got[0] != fresh {
		t.Errorf("the next rotation: %q", got)
	}
}

// TestTokenOfSomebodyElse checks that the operator never changes a Secret of others.
func TestTokenOfSomebodyElse(t *testing.T) {
	b := newBench(t)
	theirs := b.foreignSecret("demo-token", "token")
	b.cluster()
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "NameConflict", "write security.token.secretName: demo-token")
	b.condition("PeersAuthenticated", metav1.ConditionUnknown, "ConfigNotAccepted", "")
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Security.Token = &v1alpha1.TokenSpec{SecretName: "demo-token"}
	})
	b.rotate("monday")
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
	b.condition("PeersAuthenticated", metav1.ConditionTrue, "SecretNamed", "write the new token into the Secret")
	if got := b.secret("demo-token"); got.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("it was changed: %+v", got)
	}
}

func TestInvalidToken(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	b.invalidateSecret("demo-token", "token")
	b.condition("ConfigAccepted", metav1.ConditionFalse, "TokenInvalid", "or delete the Secret")
	if got := b.tokens(); !slices.Equal(got, []string{"short"}) {
		t.Errorf("it was changed: %q", got)
	}
	b.must(b.Delete(b.Context(), b.secret("demo-token")))
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
}

func TestInsecurePeers(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.Peers = v1alpha1.PeersInsecure })
	b.pass()
	b.condition("PeersAuthenticated", metav1.ConditionFalse, "Insecure", "any process that reaches port 31998")
	if b.has("demo-token", &corev1.Secret{}) {
		t.Error("there is a token")
	}
	b.secret("demo-tenants") // this Secret does not depend on the token
	t.Log("certificates are proof enough")
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Security.TLS = &v1alpha1.TLSSpec{SecretName: "tls"} })
	b.pass()
	b.condition("PeersAuthenticated", metav1.ConditionTrue, "Certificates", "of Secret tls")

	t.Log("mode Plan says that there will be one")
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Mode, s.Security.Peers = v1alpha1.ModePlan, v1alpha1.PeersToken
	})
	b.pass()
	b.expectPlanned("demo-token")
}

// TestRollToTokens updates nodes without a token to nodes with one. The former refuse the latter. So the first new pod gets the
// discovery label before it is ready; without the label it would never become ready.
func TestRollToTokens(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	pods := b.startPods("default", true, true, true, true, false)
	for _, former := range pods[:4] {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"peercache.io/peers": null}}}`))
		b.must(b.Patch(b.Context(), &former, patch))
	}
	b.pass()
	if got := b.hosts(); got != "a b c e" {
		t.Errorf("hosts %q, want three of the former members and the new one", got)
	}
}
