// SPDX-License-Identifier: Apache-2.0

// Package plan decides which Kubernetes objects a PeerCacheCluster needs.
//
//	desired, err := plan.For(cluster, facts)
//	for _, object := range desired.Objects() { ... apply it ... }
//
// Everything here is pure: the same cluster and facts give the same objects, nothing is read from or
// written to a cluster, and the clock is not looked at. One file builds one kind of object and has its test
// beside it. A spec that cannot be put into effect is a *Problem, which says what to change.
package plan

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Facts is what a plan depends on besides the cluster.
type Facts struct {
	// DataplaneImage is used where the cluster names no image.
	DataplaneImage string
}

// Desired is everything that must exist for one cluster.
type Desired struct {
	Image          string
	Groups         []Group
	ServiceAccount *corev1.ServiceAccount
	Config         *corev1.ConfigMap
	Discovery      *corev1.Service
	DaemonSets     []*appsv1.DaemonSet // in the order of Groups
	// Extras were asked for besides the nodes; their kinds may not exist.
	Extras []client.Object
}

// Objects lists the objects in the order in which they must be created: what a pod refers to comes first.
func (d *Desired) Objects() []client.Object {
	objects := []client.Object{d.ServiceAccount, d.Config, d.Discovery}
	for _, daemonSet := range d.DaemonSets {
		objects = append(objects, daemonSet)
	}
	return objects
}

// Networks are the NetworkAttachmentDefinitions among Extras.
func (d *Desired) Networks() map[types.NamespacedName]client.Object {
	networks := map[types.NamespacedName]client.Object{}
	for _, object := range d.Extras {
		if object.GetObjectKind().GroupVersionKind() == NetworkKind {
			networks[client.ObjectKeyFromObject(object)] = object
		}
	}
	return networks
}

// For plans one cluster. The error, if any, is a *Problem.
func For(cluster *v1alpha1.PeerCacheCluster, facts Facts) (*Desired, error) {
	cluster = cluster.DeepCopy() // the objects share parts of the spec
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
		Config:         config,
		Discovery:      buildDiscoveryService(cluster),
		Extras:         buildExtras(cluster),
	}
	for _, group := range groups {
		daemonSet, problem := buildDaemonSet(cluster, group, image, configHash(config))
		if problem != nil {
			return nil, problem
		}
		desired.DaemonSets = append(desired.DaemonSets, daemonSet)
	}
	return desired, nil
}
