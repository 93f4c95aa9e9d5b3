// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/operator/plan"
)

// ensureTenantSecret creates the Secret from which nodes derive the keys of tenants. Its content is random and never
// changed. Like the token's Secret it is read past the cache, once a SecretReadInterval.
func (a *Applier) ensureTenantSecret(ctx context.Context, run *Run, wanted *corev1.Secret) error {
	memory, now := run.Memory, a.Now()
	if wanted == nil || now.Sub(memory.tenants) < SecretReadInterval {
		return nil
	}
	live, err := tenantSecret.live(ctx, a, run, wanted)
	if err != nil {
		return err
	}
	if live == nil {
		made := wanted.DeepCopy()
		plan.GenerateTenantSecret(made)
		if err := a.Client.Create(ctx, made, client.FieldOwner(FieldManager)); err != nil {
			return tenantSecret.wrapError("write", wanted, err)
		}
		run.Changed = true
		name := describe(wanted)
		log.FromContext(ctx).Info("drew the secret of tenants", "object", name)
		a.Events.Eventf(run.Cluster, made, corev1.EventTypeNormal, "TenantSecretMade", "Apply", "created %s with a random secret, from which "+
			"nodes derive the keys of each namespace", name)
	} else if problem := plan.CheckTenantSecret(live); problem != nil {
		return problem
	}
	memory.tenants = now
	return nil
}
