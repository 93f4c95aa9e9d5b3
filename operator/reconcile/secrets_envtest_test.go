// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/operator/apply"
)

// secret reads a Secret of the test's namespace.
func (b *bench) secret(name string) *corev1.Secret {
	b.Helper()
	secret := &corev1.Secret{}
	b.read(name, secret)
	return secret
}

// has is true where an object exists.
func (b *bench) has(name string, into client.Object) bool {
	b.Helper()
	err := b.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, into)
	b.must(client.IgnoreNotFound(err))
	return err == nil
}

// later advances the operator's clock.
func (b *bench) later(by time.Duration) {
	now := b.reconciler.Now().Add(by)
	b.reconciler.Now = func() time.Time { return now }
}

// secretsBeforeNodes counts the Secrets that were created before the first DaemonSet. Pods wait for the Secrets that they
// mount.
func secretsBeforeNodes(written []string) int {
	nodes := slices.IndexFunc(written, func(w string) bool { return strings.Contains(w, "/daemonsets/") })
	secrets := slices.DeleteFunc(slices.Clone(written[:max(nodes, 0)]), func(w string) bool { return !strings.HasSuffix(w, "/secrets") })
	return len(secrets)
}

// foreignSecret creates a Secret that does not belong to the operator.
func (b *bench) foreignSecret(name, key string) *corev1.Secret {
	b.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}, Data: map[string][]byte{key: []byte("theirs")},
	}
	b.must(b.Create(b.Context(), secret))
	return secret
}

// passAfterSecretInterval lets the operator read its Secrets again.
func (b *bench) passAfterSecretInterval() {
	b.Helper()
	b.later(apply.SecretReadInterval)
	b.pass()
}

// deleteSecret deletes a Secret that the operator keeps; the operator then creates it again.
func (b *bench) deleteSecret(name string) {
	b.Helper()
	b.must(b.Delete(b.Context(), b.secret(name)))
	b.passAfterSecretInterval()
}

// invalidateSecret writes a value that is too short into a Secret that the operator keeps.
func (b *bench) invalidateSecret(name, key string) {
	b.Helper()
	secret := b.secret(name)
	secret.Data[key] = []byte("short")
	b.must(b.Update(b.Context(), secret))
	b.passAfterSecretInterval()
}

// expectPlanned checks that mode Plan lists the creation of a Secret, and does not create it.
func (b *bench) expectPlanned(name string) {
	b.Helper()
	if changes := b.get().Status.Plan.Changes; !slices.Contains(changes, "create Secret "+b.namespace+"/"+name) {
		b.Errorf("changes %q", changes)
	}
	if b.has(name, &corev1.Secret{}) {
		b.Errorf("mode Plan created Secret %s", name)
	}
}

// expectEventWithout checks that an event was recorded, and that no event shows a secret value.
func (b *bench) expectEventWithout(reason, value string) {
	b.Helper()
	if events := strings.Join(b.events(), "\n"); !strings.Contains(events, reason) || strings.Contains(events, value) {
		b.Errorf("events: %s", events)
	}
}
