// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/peercache/peercache/api/v1alpha1"
)

// TestImageVolumesAreAskedForNowAndThen: whatever the answer was, also that of a policy that refuses all DaemonSets.
func TestImageVolumesAreAskedForNowAndThen(t *testing.T) {
	for _, test := range []struct {
		name    string
		answer  func(*appsv1.DaemonSet) error
		removed bool
	}{
		{"kept", func(*appsv1.DaemonSet) error { return nil }, false},
		{"removed", func(d *appsv1.DaemonSet) error { d.Spec.Template.Spec.Volumes = nil; return nil }, true},
		{"refused", func(d *appsv1.DaemonSet) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, d.Name, nil)
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked, now := 0, time.Unix(1e9, 0)
			r := &Reconciler{Now: func() time.Time { return now }, Client: interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
					asked++
					return test.answer(object.(*appsv1.DaemonSet))
				},
			})}
			cluster := &v1alpha1.PeerCacheCluster{}
			cluster.Spec.Injection.Client.Delivery = v1alpha1.ClientImageVolume
			look := func(want int) {
				t.Helper()
				if removed, err := r.imageVolumesRemoved(t.Context(), cluster); err != nil || removed != test.removed || asked != want {
					t.Errorf("removed: %t, %v, after %d questions; want %t after %d", removed, err, asked, test.removed, want)
				}
			}
			look(1)
			look(1)
			now = now.Add(imageVolumesFor + time.Second)
			look(2)
		})
	}
}
