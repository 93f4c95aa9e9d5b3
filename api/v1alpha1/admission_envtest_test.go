// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package v1alpha1_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/internal/testenv"
)

const ownNetworks = `spec:
  memory: {pool: 1Gi}
  transport: RDMA
  rails: [{name: rail0, attachment: SharedDevicePlugin, sharedDevicePlugin: {resourceName: rdma/rail0}, network: {name: rail0}}]
  provision: {networks: [{rail: rail0, type: HostDevice, interface: eth0, ipam: {range: 10.9.0.0/24}}]}`

// TestNetworksNeedTheRightToMakeThem: an editor of PeerCacheClusters does not get a machine's port by writing one.
func TestNetworksNeedTheRightToMakeThem(t *testing.T) {
	admin, namespace := testenv.Client(t), testenv.Namespace(t)
	applyPolicy(t, admin, "../../config/admission/networks.yaml")
	const name = "networks-editor"
	grant(t, admin, namespace, name, "clusters", rbacv1.PolicyRule{
		APIGroups: []string{"peercache.io"}, Resources: []string{"peercacheclusters"}, Verbs: []string{"create", "get", "update", "patch"},
	})
	editor := as(t, name)
	ctx := t.Context()

	// A policy takes effect a moment after it was made.
	testenv.Eventually(t, func() error {
		err := editor.Create(ctx, manifest(t, namespace, "refused", ownNetworks), client.DryRunAll)
		if err == nil {
			return errors.New("it is admitted")
		}
		return refusal(err)
	})
	if err := editor.Create(ctx, manifest(t, namespace, "plain", "spec: {memory: {pool: 1Gi}}")); err != nil {
		t.Errorf("a cluster without networks: %v", err)
	}

	cluster := manifest(t, namespace, "of-admin", ownNetworks)
	if err := admin.Create(ctx, cluster); err != nil {
		t.Fatalf("who may make networks: %v", err)
	}
	change := func(path []string, value any) error {
		own := manifest(t, namespace, cluster.GetName(), "")
		if err := editor.Get(ctx, client.ObjectKeyFromObject(cluster), own); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(own.Object, value, path...); err != nil {
			t.Fatal(err)
		}
		return editor.Update(ctx, own)
	}
	if err := change([]string{"spec", "memory", "pool"}, "2Gi"); err != nil {
		t.Errorf("another field of a cluster with networks: %v", err)
	}
	networks, _, err := unstructured.NestedSlice(cluster.Object, "spec", "provision", "networks")
	if err != nil {
		t.Fatal(err)
	}
	networks[0].(map[string]any)["interface"] = "eth1"
	if err := refusal(change([]string{"spec", "provision", "networks"}, networks)); err != nil {
		t.Errorf("another port: %v", err)
	}
	rails, _, err := unstructured.NestedSlice(cluster.Object, "spec", "rails")
	if err != nil {
		t.Fatal(err)
	}
	rails[0].(map[string]any)["network"] = map[string]any{"name": "other"}
	if err := refusal(change([]string{"spec", "rails"}, rails)); err != nil {
		t.Errorf("a network of another name: %v", err)
	}

	grant(t, admin, namespace, name, "networks", rbacv1.PolicyRule{
		APIGroups: []string{"k8s.cni.cncf.io"}, Resources: []string{"network-attachment-definitions"}, Verbs: []string{"create"},
	})
	testenv.Eventually(t, func() error {
		return editor.Create(ctx, manifest(t, namespace, "allowed", ownNetworks), client.DryRunAll)
	})
}

// TestWritersNeedTheRightToMakeDaemonSets: an editor of PeerCacheClusters does not get a pod on every machine by writing one.
func TestWritersNeedTheRightToMakeDaemonSets(t *testing.T) {
	admin, namespace := testenv.Client(t), testenv.Namespace(t)
	applyPolicy(t, admin, "../../config/writers/policy.yaml")
	const name = "clusters-editor"
	grant(t, admin, namespace, name, "clusters", rbacv1.PolicyRule{
		APIGroups: []string{"peercache.io"}, Resources: []string{"peercacheclusters"}, Verbs: []string{"create", "get", "update", "patch"},
	})
	editor := as(t, name)
	refused := func(err error) error {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "who may create daemonsets.apps there") {
			return errors.Join(errors.New("not the policy's refusal"), err)
		}
		return nil
	}
	const privileged = `spec: {memory: {pool: 1Gi}, podTemplate: {spec: {containers: [{name: peercached, securityContext: {privileged: true}}]}}}`
	testenv.Eventually(t, func() error {
		return refused(editor.Create(t.Context(), manifest(t, namespace, "refused", privileged), client.DryRunAll))
	})

	cluster := manifest(t, namespace, "of-admin", privileged)
	if err := admin.Create(t.Context(), cluster); err != nil {
		t.Fatalf("who may make DaemonSets: %v", err)
	}
	patch := func(text string) error {
		return editor.Patch(t.Context(), cluster.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	if err := patch(`{"metadata": {"labels": {"team": "kv"}}}`); err != nil {
		t.Errorf("a label: %v", err)
	}
	if err := refused(patch(`{"spec": {"memory": {"hostPath": "/etc"}}}`)); err != nil {
		t.Errorf("a folder of the machine: %v", err)
	}

	grant(t, admin, namespace, name, "daemonsets", rbacv1.PolicyRule{
		APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"create"},
	})
	testenv.Eventually(t, func() error {
		return editor.Create(t.Context(), manifest(t, namespace, "allowed", privileged), client.DryRunAll)
	})
}

// refusal is nil if the error is the policy's, and says what to do.
func refusal(err error) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "name networks that exist in rails[].network.name") {
		return errors.Join(errors.New("not the policy's refusal"), err)
	}
	return nil
}

func applyPolicy(t *testing.T, c client.Client, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Delete(context.Background(), object); err != nil {
				t.Error(err)
			}
		})
	}
}

func grant(t *testing.T, c client.Client, namespace, user, name string, rule rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: user + "-" + name}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		},
	} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// as is a client of a user who has no rights but those that are granted.
func as(t *testing.T, user string) client.Client {
	t.Helper()
	config := testenv.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := client.New(config, client.Options{Scheme: testenv.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
