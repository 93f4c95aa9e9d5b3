// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/plan"
)

func provisioned(s *v1alpha1.PeerCacheClusterSpec) {
	s.Rails = []v1alpha1.Rail{{Name: "a", Group: "g", Attachment: v1alpha1.AttachmentSharedDevicePlugin, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "rdma/rail_0"}, Network: &v1alpha1.RailNetwork{Name: "rail0"}}}
	s.Provision = v1alpha1.ProvisionSpec{
		DevicePlugin: &v1alpha1.DevicePluginSpec{Resources: []v1alpha1.SharedResource{
			{Rail: "a", Selectors: v1alpha1.PortSelectors{Interfaces: []string{"ens1"}}}}},
		Networks: []v1alpha1.ProvisionedNetwork{{Rail: "a", Type: v1alpha1.NetworkMacvlan, Interface: "ens1",
			IPAM: v1alpha1.IPAMSpec{Range: "10.1.0.0/24"}}},
	}
}

// installNetworks installs the kind of Multus until the test ends.
func installNetworks(t *testing.T) {
	t.Helper()
	installKinds(t, "testdata/network-attachment-definition.yaml", plan.NetworkKind.GroupKind())
}

// installKinds installs the definitions of a file until the test ends. kind is the last of them.
func installKinds(t *testing.T, file string, kind schema.GroupKind) {
	t.Helper()
	options := envtest.CRDInstallOptions{Paths: []string{file}}
	if _, err := envtest.InstallCRDs(testenv.Config(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(testenv.Config(), options); err != nil {
			t.Error(err)
		}
		testenv.Eventually(t, func() error {
			fresh, err := client.New(testenv.Config(), client.Options{Scheme: testenv.Scheme()})
			if err != nil {
				return err
			}
			if _, err = fresh.RESTMapper().RESTMapping(kind, "v1"); meta.IsNoMatchError(err) {
				return nil
			}
			return fmt.Errorf("the kind is still there (error %w)", err)
		})
	})
}

func (b *bench) network(name string) (*unstructured.Unstructured, error) {
	network := &unstructured.Unstructured{}
	network.SetGroupVersionKind(plan.NetworkKind)
	return network, testenv.Client(b.T).Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, network)
}

// TestRemovedKindIsMissing uninstalls Multus while the operator runs, which has a REST mapping of the kind by then.
func TestRemovedKindIsMissing(t *testing.T) {
	b := newBench(t)
	b.cluster(provisioned)
	t.Run("while Multus is there", func(t *testing.T) {
		installNetworks(t)
		b.pass()
		b.condition("NetworksResolved", metav1.ConditionTrue, "Resolved", "")
	})
	b.reconciler.Now = func() time.Time { return time.Now().Add(2 * lookupTTL) }
	b.pass()
	b.condition("NetworksResolved", metav1.ConditionFalse, "MultusMissing", "install Multus")
}

func TestProvision(t *testing.T) {
	installNetworks(t)
	b := newBench(t)
	cluster := b.cluster(provisioned)
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionTrue, "Accepted", "")
	b.condition("NetworksResolved", metav1.ConditionTrue, "Resolved", "")
	config, daemonSet := &corev1.ConfigMap{}, &appsv1.DaemonSet{}
	b.read("demo-device-plugin", config)
	b.read("demo-device-plugin", daemonSet)
	network, err := b.network("rail0")
	b.must(err)
	for _, object := range []client.Object{config, daemonSet, network} {
		if !metav1.IsControlledBy(object, cluster) {
			t.Errorf("%T would outlive the cluster", object)
		}
	}
	if image := daemonSet.Spec.Template.Spec.Containers[0].Image; image != "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3" {
		t.Errorf("the plug-in's image is %s", image)
	}
	if groups := b.get().Status.Groups; len(groups) != 1 || groups[0].Name != "g" {
		t.Errorf("the device plug-in is counted as a member: %+v", groups)
	}
	for range 2 {
		if again := b.pass(); len(again) != 0 {
			t.Errorf("nothing changed, but the operator wrote %q", again)
		}
	}

	b.must(unstructured.SetNestedField(network.Object, "{}", "spec", "config"))
	b.must(testenv.Client(t).Update(t.Context(), network))
	b.pass()
	network, err = b.network("rail0")
	b.must(err)
	if config, _, _ := unstructured.NestedString(network.Object, "spec", "config"); !strings.Contains(config, "macvlan") {
		t.Errorf("the network was changed by somebody else and is still %s", config)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Provision = v1alpha1.ProvisionSpec{} })
	b.events()
	b.pass()
	if _, err := b.network("rail0"); !apierrors.IsNotFound(err) {
		t.Errorf("the network is still there: %v", err)
	}
	err = b.Get(t.Context(), client.ObjectKeyFromObject(daemonSet), daemonSet)
	if !apierrors.IsNotFound(err) {
		t.Errorf("the plug-in is still there: %v", err)
	}
	b.daemonSet("g")
	if objects := b.extras(); len(objects) != 0 {
		t.Errorf("status.objects is %+v", objects)
	}
	if recorded := strings.Join(b.events(), "\n"); !strings.Contains(recorded, "ObjectRemoved") {
		t.Errorf("the user is not told: %s", recorded)
	}
}

// extras returns the objects that the status lists, except the policy that every cluster has.
func (b *bench) extras() []v1alpha1.MadeObject {
	b.Helper()
	return slices.DeleteFunc(b.get().Status.Objects, func(o v1alpha1.MadeObject) bool { return o.Kind == "NetworkPolicy" })
}

// TestObjectsOfAFailedPassAreDeleted checks that the status also lists what was created before an error.
func TestObjectsOfAFailedPassAreDeleted(t *testing.T) {
	b := newBench(t)
	foreign := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "demo-device-plugin"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
		}}
	b.must(b.Create(t.Context(), foreign))
	b.cluster(provisioned)
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "NameConflict", "DaemonSet "+b.namespace+"/demo-device-plugin")
	config := &corev1.ConfigMap{}
	b.read("demo-device-plugin", config)
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Provision = v1alpha1.ProvisionSpec{} })
	b.pass()
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(config), config); !apierrors.IsNotFound(err) {
		t.Errorf("the plug-in's configuration is still there: %v", err)
	}
	b.read(foreign.Name, foreign)
	if objects := b.extras(); len(objects) != 0 {
		t.Errorf("status.objects is %+v", objects)
	}
}

func TestRecreatedObjectOfOthersIsNotDeleted(t *testing.T) {
	installNetworks(t)
	b := newBench(t)
	b.cluster(provisioned)
	b.pass()
	network, err := b.network("rail0")
	b.must(err)
	network.SetOwnerReferences(nil)
	b.must(testenv.Client(t).Update(t.Context(), network))
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Provision = v1alpha1.ProvisionSpec{} })
	b.pass()
	if _, err := b.network("rail0"); err != nil {
		t.Errorf("a network that is no longer the cluster's was deleted: %v", err)
	}
}

func TestProvisionIsPreviewed(t *testing.T) {
	installNetworks(t)
	b := newBench(t)
	b.cluster(provisioned, func(s *v1alpha1.PeerCacheClusterSpec) { s.Mode = v1alpha1.ModePlan })
	b.pass()
	if changes := b.get().Status.Plan.Changes; !slices.Contains(changes, "create NetworkAttachmentDefinition "+b.namespace+"/rail0") {
		t.Errorf("changes are %q", changes)
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Mode = v1alpha1.ModeApply })
	b.pass()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Mode, s.Provision.Networks = v1alpha1.ModePlan, nil })
	b.pass()
	if changes := b.get().Status.Plan.Changes; !slices.Equal(changes, []string{"delete NetworkAttachmentDefinition " + b.namespace + "/rail0"}) {
		t.Errorf("changes are %q", changes)
	}
}
