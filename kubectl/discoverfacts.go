// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/kubectl/discover"
	"github.com/peercache/peercache/operator/plan"
)

// policyKind is the kind by which the SR-IOV network operator configures the SR-IOV network device plugin.
var policyKind = schema.GroupVersionKind{Group: "sriovnetwork.openshift.io", Version: "v1", Kind: "SriovNetworkNodePolicy"}

// pluginConfig is where the SR-IOV network device plugin has its configuration when it is installed as its documentation says.
var pluginConfig = client.ObjectKey{Namespace: "kube-system", Name: "sriovdp-config"}

const pluginConfigKey = "config.json"

// askKubernetes reads what hands out the ports of machines. What the user may not read, or what is not to be understood, is
// named in the manifest; what is not installed is not.
func askKubernetes(ctx context.Context, a *access, machines []string) discover.Kubernetes {
	k := discover.Kubernetes{Asked: true}
	unread := func(what string, err error) bool {
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			k.Unread = append(k.Unread, fmt.Sprintf("%s could not be read (%v)", what, err))
		}
		return err != nil
	}
	k.Allocatable = map[string]map[string]int64{}
	for _, name := range machines {
		var node corev1.Node
		if unread("what Kubernetes node "+name+" offers", a.Get(ctx, client.ObjectKey{Name: name}, &node)) {
			continue
		}
		k.Allocatable[name] = extendedResources(node.Status.Allocatable)
	}
	var slicesList resourcev1.ResourceSliceList
	if !unread("ResourceSlices", a.List(ctx, &slicesList)) {
		k.Slices = slicesList.Items
	}
	if len(k.Slices) > 0 {
		var classes resourcev1.DeviceClassList
		if !unread("DeviceClasses", a.List(ctx, &classes)) {
			k.Classes = classes.Items
		}
	}
	for _, object := range listKind(ctx, a, plan.NetworkKind, unread) {
		config, _, _ := unstructured.NestedString(object.Object, "spec", "config")
		name := object.GetNamespace() + "/" + object.GetName()
		if network, is := discover.ParseNetwork(name, object.GetAnnotations()[plan.NetworkResource], config); is {
			k.Networks = append(k.Networks, network)
		}
	}
	for _, object := range listKind(ctx, a, policyKind, unread) {
		text, err := json.Marshal(object.Object["spec"])
		if err == nil {
			var pool discover.Pool
			if pool, err = discover.ParsePolicy(text); err == nil {
				k.Pools = append(k.Pools, pool)
			}
		}
		unread("SriovNetworkNodePolicy "+object.GetName(), err)
	}
	var config corev1.ConfigMap
	if !unread("ConfigMap "+pluginConfig.String(), a.Get(ctx, pluginConfig, &config)) {
		pools, err := discover.ParsePluginConfig(config.Data[pluginConfigKey])
		unread("ConfigMap "+pluginConfig.String(), err)
		k.Pools = append(k.Pools, pools...)
	}
	return k
}

// extendedResources are those that device plug-ins offer.
func extendedResources(list corev1.ResourceList) map[string]int64 {
	resources := map[string]int64{}
	for name, quantity := range list {
		if domain, _, found := strings.Cut(string(name), "/"); found && !strings.HasSuffix(domain, "kubernetes.io") && quantity.Value() > 0 {
			resources[string(name)] = quantity.Value()
		}
	}
	return resources
}

// listKind lists objects of a kind that may not be installed, in the order of their namespaces and names.
func listKind(
	ctx context.Context, a *access, kind schema.GroupVersionKind, unread func(string, error) bool,
) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if unread(kind.Kind, a.List(ctx, list)) {
		return nil
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return list.Items
}
