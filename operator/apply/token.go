// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/rights"
)

// The Secret with the nodes' token is read past the cache, at most once a SecretReadInterval. To watch it, the operator
// would need the right to read all Secrets.

// SecretReadInterval is how long a Secret that was found valid is not read again.
const SecretReadInterval = 30 * time.Second

// tokenState is the content of the Secret at the last read, without the tokens themselves.
type tokenState struct {
	at    time.Time // time of that read
	asked string    // the cluster's annotation at that time
	plan.Token
}

// fresh says that the Secret need not be read again yet.
func (s *tokenState) fresh(asked string, now time.Time) bool {
	return s != nil && s.asked == asked && now.Sub(s.at) < SecretReadInterval && (s.Step == 0 || now.Before(s.Due()))
}

// ensureToken creates the Secret that nodes mount, and takes the steps of a rotation. Otherwise it leaves an existing
// Secret as it is.
func (a *Applier) ensureToken(ctx context.Context, run *Run, wanted *corev1.Secret) error {
	if wanted == nil {
		return nil
	}
	memory, now := run.Memory, a.Now()
	asked := run.Cluster.Annotations[v1alpha1.AnnotationRotateToken]
	if !memory.token.fresh(asked, now) {
		token, err := a.readOrRotateToken(ctx, run, wanted, asked)
		if err != nil {
			memory.token = nil
			return err
		}
		token.Lines = nil
		memory.token = &tokenState{now, asked, token}
	}
	run.Token = &memory.token.Token
	if run.Token.Step != 0 {
		run.Deadlines = append(run.Deadlines, run.Token.Due())
	}
	return nil
}

// readOrRotateToken returns the content of the Secret, after the step of a rotation that is due, if any.
func (a *Applier) readOrRotateToken(ctx context.Context, run *Run, wanted *corev1.Secret, asked string) (plan.Token, error) {
	name := describe(wanted)
	live, err := tokenSecret.live(ctx, a, run, wanted)
	if err != nil {
		return plan.Token{}, err
	}
	if live == nil {
		token := plan.NewToken(asked)
		made := wanted.DeepCopy()
		token.Write(made)
		if err := a.Client.Create(ctx, made, client.FieldOwner(FieldManager)); err != nil {
			return token, tokenSecret.wrapError("write", wanted, err)
		}
		run.Changed = true
		log.FromContext(ctx).Info("drew a token", "object", name)
		a.Events.Eventf(run.Cluster, made, corev1.EventTypeNormal, "TokenMade", "Apply", "created %s with a random token, by which nodes authenticate each other", name)
		return token, nil
	}
	token, problem := plan.ReadToken(live)
	if problem != nil {
		return token, problem
	}
	next := token.Next(asked, a.Now().Truncate(time.Second)) // the Secret stores whole seconds
	if next.Equal(token) {
		return token, nil
	}
	before := live.DeepCopy()
	next.Write(live)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := a.Client.Patch(ctx, live, patch, client.FieldOwner(FieldManager)); err != nil {
		return token, tokenSecret.wrapError("write", wanted, err)
	}
	run.Changed = true
	log.FromContext(ctx).Info("rotates the token", "object", name, "step", next.Step, "rotation", next.Rotation)
	return next, nil
}

// ownedSecret is a Secret that the operator keeps, with the alternatives for users whose operator cannot.
type ownedSecret struct {
	// withoutRight is the alternative when the operator may not keep Secrets in the cluster's namespace.
	withoutRight string
	// taken is the alternative when a Secret of that name belongs to somebody else; %s stands for the name.
	taken string
}

var (
	tokenSecret = ownedSecret{
		withoutRight: "name a Secret with a token of your own in security.token.secretName",
		taken:        "write security.token.secretName: %s to use the token that it holds",
	}
	tenantSecret = ownedSecret{
		withoutRight: "write sharing: Cluster, with which pods of all namespaces that use the cluster find each other's pages",
		taken:        "choose another metadata.name than that from which %s follows",
	}
)

// live reads the Secret; nil when there is none.
func (s ownedSecret) live(ctx context.Context, a *Applier, run *Run, wanted *corev1.Secret) (*corev1.Secret, error) {
	live, name := &corev1.Secret{}, describe(wanted)
	err := a.Live.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, s.wrapError("read", wanted, err)
	case ownedByFormer(live, run.Cluster):
		return nil, a.formerProblem(name, run.Cluster)
	case !ownedBy(live, run.Cluster):
		return nil, &plan.Problem{Reason: "NameConflict", Message: fmt.Sprintf("%s exists and does not belong to this cluster: delete it, "+
			"or "+s.taken, name, wanted.Name)}
	}
	return live, nil
}

func (s ownedSecret) wrapError(doing string, secret *corev1.Secret, err error) error {
	name := describe(secret)
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("trying to %s %s: %w", doing, name, err)
	}
	problem := rights.Forbidden(doing, name, schema.GroupKind{Kind: "Secret"}, secret.Namespace, err)
	problem.Message += "; or " + s.withoutRight
	return problem
}
