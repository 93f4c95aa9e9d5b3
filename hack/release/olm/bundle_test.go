// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
)

const root = "../../.."

// made is the bundle of these sources, as OLM reads it.
func made(t *testing.T) (string, *manifests.Bundle) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "bundle")
	if err := run(root, folder); err != nil {
		t.Fatal(err)
	}
	bundle, err := manifests.GetBundleFromDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return folder, bundle
}

// TestBundleIsValid: the validators of `operator-sdk bundle validate` have nothing to say, except MultipleArchitectures,
// which would pull the image.
func TestBundleIsValid(t *testing.T) {
	validators := validation.DefaultBundleValidators.WithValidators(validation.OperatorHubV2Validator,
		validation.StandardCategoriesValidator, validation.StandardCapabilitiesValidator, validation.ObjectValidator,
		validation.OperatorGroupValidator, validation.CommunityOperatorValidator, validation.AlphaDeprecatedAPIsValidator,
		validation.GoodPracticesValidator)
	_, bundle := made(t)
	results := validators.Validate(bundle.ObjectsToValidate()...)
	if len(results) == 0 {
		t.Fatal("nothing was validated")
	}
	for _, result := range results {
		for _, problem := range slices.Concat(result.Errors, result.Warnings) {
			// It looks at the resource only; the operator writes v1.
			if !strings.Contains(problem.Error(), "Migrate the API(s) for events:") {
				t.Errorf("%s: %v", result.Name, problem)
			}
		}
	}
}

// TestBundleInstallsConfig: with OLM the operator is the one that kustomize installs, and may and does the same.
func TestBundleInstallsConfig(t *testing.T) {
	_, bundle := made(t)
	in, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(in.cluster.Rules) == 0 || len(in.namespaced.Rules) == 0 || len(in.webhook.Webhooks) != 1 || len(in.users) != 2 || len(in.features) != 4 {
		t.Fatal("config/ was not read")
	}
	same := func(what string, want, got any) {
		if !equality.Semantic.DeepEqual(want, got) {
			t.Errorf("%s differs (-config +OLM):\n%s", what, diff.Diff(want, got))
		}
	}
	strategy := bundle.CSV.Spec.InstallStrategy.StrategySpec
	account := in.deployment.Spec.Template.Spec.ServiceAccountName
	if len(strategy.ClusterPermissions) != 1 || len(strategy.Permissions) != 1 || len(strategy.DeploymentSpecs) != 1 {
		t.Fatalf("installs %+v", strategy)
	}
	same("the ClusterRole", in.cluster.Rules, strategy.ClusterPermissions[0].Rules)
	same("the Role", in.namespaced.Rules, strategy.Permissions[0].Rules)
	same("the accounts", []string{account, account},
		[]string{strategy.ClusterPermissions[0].ServiceAccountName, strategy.Permissions[0].ServiceAccountName})

	deployment := in.deployment.Spec.DeepCopy()
	container := &deployment.Template.Spec.Containers[0]
	container.Args = append(container.Args, "--webhook-certificates="+certificates)
	same("the Deployment", *deployment, strategy.DeploymentSpecs[0].Spec)

	// Back to what the API server is told, where OLM says whom to ask.
	want := *in.webhook.Webhooks[0].DeepCopy()
	got := bundle.CSV.Spec.WebhookDefinitions[0].GetMutatingWebhook("", nil, nil)
	service := want.ClientConfig.Service
	same("the webhook's path", service.Path, bundle.CSV.Spec.WebhookDefinitions[0].WebhookPath)
	want.ClientConfig, got.ClientConfig = admissionv1.WebhookClientConfig{}, admissionv1.WebhookClientConfig{}
	same("the webhook", want, got)

	object := func(kind, name string, into any) {
		i := slices.IndexFunc(bundle.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
		if i < 0 {
			t.Fatalf("%s %s is not in the bundle", kind, name)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(bundle.Objects[i].Object, into); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.ContainsFunc(strategy.ClusterPermissions[0].Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "daemonsets") && slices.Contains(r.Verbs, "patch")
	}) {
		t.Error("with OLM the operator may not make nodes")
	}
	for _, role := range slices.Concat(in.users, in.features) {
		var got rbacv1.ClusterRole
		object("ClusterRole", role.Name, &got)
		same("ClusterRole "+role.Name, role, got)
	}
	var kept policyv1.PodDisruptionBudget
	object("PodDisruptionBudget", in.disruption.Name, &kept)
	same("the PodDisruptionBudget", in.disruption.Spec, kept.Spec)
}

// TestBundleIsRepeatable: the same sources make the same bundle, and its image says what its metadata says.
func TestBundleIsRepeatable(t *testing.T) {
	first, _ := made(t)
	second, _ := made(t)
	if err := filepath.WalkDir(first, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(first, path)
		one, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		two, err := os.ReadFile(filepath.Join(second, name))
		if err == nil && string(one) != string(two) {
			t.Errorf("%s differs", name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(first, "bundle.Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range labels {
		if !strings.Contains(string(image), "LABEL "+label[0]+"="+label[1]+"\n") {
			t.Errorf("the image has no label %s", label[0])
		}
	}
}

func TestBadSources(t *testing.T) {
	in, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	in.version = "one"
	if _, err := build(in); err == nil || !strings.Contains(err.Error(), `VERSION "one"`) {
		t.Errorf("a version that is none: %v", err)
	}
}
