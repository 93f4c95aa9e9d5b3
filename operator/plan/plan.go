// SPDX-License-Identifier: Apache-2.0

// Package plan decides which Kubernetes objects a PeerCacheCluster needs.
//
//	desired, err := plan.For(cluster, facts)
//	for _, object := range desired.Objects() { ... apply it ... }
//
// The package is pure: the same cluster and facts give the same objects. It does not access a Kubernetes cluster, and does
// not read the clock. Each file builds one kind of object and has its test beside it. A spec that cannot be put into effect
// gives a *Problem, which says what to change.
package plan

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Facts are the inputs of a plan besides the cluster.
type Facts struct {
	// DataplaneImage is the image for clusters that name none.
	DataplaneImage string
	// PodsUnpatched says that the operator may not patch pods: every node hosts discovery, and other images need new pods.
	PodsUnpatched bool
	// Runbooks is the address below which the pages of alerts are.
	Runbooks string
}

// Desired has all objects of one cluster.
type Desired struct {
	Image          string
	Groups         []Group
	ServiceAccount *corev1.ServiceAccount
	// Token is the Secret that the operator keeps, without its content. It is nil where the operator keeps none.
	Token *corev1.Secret
	// Tenants is the Secret from which nodes derive the keys of tenants, without its content. It is nil where there are no
	// tenants.
	Tenants    *corev1.Secret
	Config     *corev1.ConfigMap
	Discovery  *corev1.Service
	DaemonSets []*appsv1.DaemonSet // in the order of Groups
	// PoolRemovals run the pods that remove the files of spec.memory.hostPath.
	PoolRemovals []*appsv1.DaemonSet
	// Extras are the objects that the spec asks for besides the nodes. Their kinds may not exist.
	Extras []client.Object
}

// Objects returns the objects that a pass writes whenever they differ, in the order of creation: those that a pod refers to come
// first.
func (d *Desired) Objects() []client.Object {
	objects := []client.Object{d.ServiceAccount, d.Config, d.Discovery}
	for _, daemonSet := range d.DaemonSets {
		objects = append(objects, daemonSet)
	}
	return objects
}

// Networks returns the NetworkAttachmentDefinitions among Extras.
func (d *Desired) Networks() map[types.NamespacedName]client.Object {
	networks := map[types.NamespacedName]client.Object{}
	for _, object := range d.Extras {
		if object.GetObjectKind().GroupVersionKind() == NetworkKind {
			networks[client.ObjectKeyFromObject(object)] = object
		}
	}
	return networks
}

// For plans one cluster. Its error is a *Problem.
func For(cluster *v1alpha1.PeerCacheCluster, facts Facts) (*Desired, error) {
	cluster = cluster.DeepCopy() // the objects would share parts of the spec
	groups := Groups(cluster.Spec)
	if problem := check(cluster.Spec, groups); problem != nil {
		return nil, problem
	}
	image := cluster.Spec.Image
	if image == "" {
		image = facts.DataplaneImage
	}
	config := buildConfigMap(cluster)
	desired := &Desired{
		Image:          image,
		Groups:         groups,
		ServiceAccount: buildServiceAccount(cluster),
		Token:          buildToken(cluster),
		Tenants:        buildTenantSecret(cluster),
		Config:         config,
		Discovery:      buildDiscoveryService(cluster),
		Extras:         buildExtras(cluster, facts),
	}
	for _, group := range groups {
		node, removal, problem := buildDaemonSets(cluster, group, facts, image, configHash(config))
		if problem != nil {
			return nil, problem
		}
		desired.DaemonSets = append(desired.DaemonSets, node)
		if removal != nil {
			desired.PoolRemovals = append(desired.PoolRemovals, removal)
		}
	}
	desired.Extras = append(desired.Extras, buildNetworkPolicy(cluster, groups, desired.DaemonSets)...)
	return desired, nil
}
