// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// notAllowed is a client without any right.
type notAllowed struct{ client.Client }

func (notAllowed) Scheme() *runtime.Scheme { return runtime.NewScheme() }

func (notAllowed) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "mutatingadmissionpolicies"}, key.Name, errors.New("no rule allows it"))
}

// TestPolicyWithoutRights checks that without the right, clusters that ask for a policy get a condition, and other clusters are
// not affected.
func TestPolicyWithoutRights(t *testing.T) {
	cluster := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "serving", Name: "kv"}}
	if objects := Policies(cluster, inject.Options{ClientImage: "client"}, false, nil); objects != nil {
		t.Errorf("nobody asks for a policy, but there are %d objects", len(objects))
	}
	cluster.Spec.Injection.By = v1alpha1.InjectionByPolicy
	a := &Applier{Client: notAllowed{}, Live: notAllowed{}}
	for _, object := range Policies(cluster, inject.Options{ClientImage: "client"}, false, nil) {
		_, err := a.compare(t.Context(), &Run{Cluster: cluster, Memory: &Memory{}}, object)
		var problem *plan.Problem
		if !errors.As(err, &problem) || problem.Reason != "Forbidden" || !strings.Contains(problem.Message, object.GetName()) {
			t.Errorf("comparing %s: %v", object.GetName(), err)
		}
	}
	if err := a.DeletePolicies(t.Context(), client.ObjectKeyFromObject(cluster)); err != nil {
		t.Error(err)
	}
}

func TestBelongs(t *testing.T) {
	cluster := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a-b", Name: "c"}}
	cluster.Spec.Injection.By = v1alpha1.InjectionByPolicy
	policy := Policies(cluster, inject.Options{ClientImage: "client"}, false, nil)[0]
	if !ownedBy(policy, cluster) {
		t.Errorf("%s does not belong to its cluster", policy.GetName())
	}
	for _, other := range []metav1.ObjectMeta{{Namespace: "a", Name: "b-c"}, {Namespace: "a-b", Name: "d"}, {Namespace: "x", Name: "c"}} {
		if ownedBy(policy, &v1alpha1.PeerCacheCluster{ObjectMeta: other}) {
			t.Errorf("%s belongs to %s/%s", policy.GetName(), other.Namespace, other.Name)
		}
	}
	policy.SetLabels(nil)
	if ownedBy(policy, cluster) {
		t.Error("an object of somebody else's belongs to the cluster by its name alone")
	}
}
