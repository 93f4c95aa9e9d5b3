// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestRotate(t *testing.T) {
	asked := func(value string) func(*v1alpha1.PeerCacheCluster) {
		return func(c *v1alpha1.PeerCacheCluster) {
			c.Annotations = map[string]string{v1alpha1.AnnotationRotateToken: value}
		}
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.PeerCacheCluster)
		args   []string
		says   string
		want   string // value of the annotation
		status int
	}{
		"asks for another token": {func(*v1alpha1.PeerCacheCluster) {}, []string{"kv"},
			"pcc/kv --for=jsonpath='{.status.rotatedToken}'=20260302T120000Z", "20260302T120000Z", 0},
		"after an earlier one": {func(c *v1alpha1.PeerCacheCluster) {
			asked("monday")(c)
			c.Status.RotatedToken = "monday"
		}, []string{"kv"}, "inference/kv: rotation 20260302T120000Z", "20260302T120000Z", 0},
		"not while one is under way": {asked("monday"), []string{"kv"}, "rotation monday of the token of inference/kv is under way", "monday", 1},
		"not of a Secret of the user's": {func(c *v1alpha1.PeerCacheCluster) {
			c.Spec.Security.Token = &v1alpha1.TokenSpec{SecretName: "mine"}
		}, []string{"kv"}, "in Secret mine, which you manage: write the new token", "", 1},
		"not where there is none": {func(c *v1alpha1.PeerCacheCluster) { c.Spec.Security.Peers = v1alpha1.PeersInsecure },
			[]string{"kv"}, "remove spec.security.peers: Insecure", "", 1},
		"not without a name": {func(*v1alpha1.PeerCacheCluster) {}, nil, "takes the NAME of one PeerCacheCluster, and there are 0", "", 1},
		"not of another one": {func(*v1alpha1.PeerCacheCluster) {}, []string{"other"}, "no PeerCacheCluster other; it has kv", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			objects := store(t, cluster("kv", test.change))
			got := runCommandOn(t, &fakePods{}, objects, nil, append([]string{"rotate"}, test.args...)...)
			if got.status != test.status || !strings.Contains(got.stdout+got.stderr, test.says) {
				t.Errorf("status %d, says %q, errors %q", got.status, got.stdout, got.stderr)
			}
			after := &v1alpha1.PeerCacheCluster{}
			if err := objects.Get(t.Context(), client.ObjectKey{Namespace: "inference", Name: "kv"}, after); err != nil {
				t.Fatal(err)
			}
			if value := after.Annotations[v1alpha1.AnnotationRotateToken]; value != test.want {
				t.Errorf("the annotation is %q, want %q", value, test.want)
			}
		})
	}
}
