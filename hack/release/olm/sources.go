// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed clusterserviceversion.yaml
var shown []byte

// sources are what the bundle is made of.
type sources struct {
	version    string
	shown      v1alpha1.ClusterServiceVersion
	deployment appsv1.Deployment
	disruption policyv1.PodDisruptionBudget
	cluster    rbacv1.ClusterRole // of the operator
	namespaced rbacv1.Role        // of the operator, in its own namespace
	users      []rbacv1.ClusterRole
	features   []rbacv1.ClusterRole // of the operator, for who installs to bind
	webhook    admissionv1.MutatingWebhookConfiguration
	crd        apiextensionsv1.CustomResourceDefinition
	crdText    []byte
	samples    []json.RawMessage
}

func read(root string) (sources, error) {
	var in sources
	text, err := load(filepath.Join(root, "VERSION"))
	if err != nil {
		return in, err
	}
	in.version = strings.TrimSpace(string(text))
	if err := yaml.UnmarshalStrict(shown, &in.shown); err != nil {
		return in, fmt.Errorf("clusterserviceversion.yaml: %w", err)
	}
	config := func(name string) string { return filepath.Join(root, "config", name) }
	one := func(name string, object any) {
		if err == nil {
			err = documents(config(name), func(text []byte) error { return yaml.UnmarshalStrict(text, object) })
		}
	}
	one("manager/deployment.yaml", &in.deployment)
	one("manager/poddisruptionbudget.yaml", &in.disruption)
	one("webhook/webhook.yaml", &in.webhook)
	one("crd/peercache.io_peercacheclusters.yaml", &in.crd)
	if err != nil {
		return in, err
	}
	if in.crdText, err = load(config("crd/peercache.io_peercacheclusters.yaml")); err != nil {
		return in, err
	}
	err = documents(config("rbac/role.yaml"), func(text []byte) error {
		if bytes.Contains(text, []byte("kind: ClusterRole\n")) {
			return yaml.UnmarshalStrict(text, &in.cluster)
		}
		return yaml.UnmarshalStrict(text, &in.namespaced)
	})
	if err != nil {
		return in, err
	}
	if err := readRights(config("rights/*/role.yaml"), &in); err != nil {
		return in, err
	}
	err = documents(config("rbac/user-roles.yaml"), func(text []byte) error {
		var role rbacv1.ClusterRole
		err := yaml.UnmarshalStrict(text, &role)
		in.users = append(in.users, role)
		return err
	})
	if err != nil {
		return in, err
	}
	return in, documents(config("samples/minimal.yaml"), func(text []byte) error {
		sample, err := yaml.YAMLToJSON(text)
		in.samples = append(in.samples, sample)
		return err
	})
}

// readRights reads what the operator may write. What it needs to run nodes by default it always has.
func readRights(pattern string, in *sources) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("%s: %w", pattern, err)
	}
	for _, file := range files {
		err := documents(file, func(text []byte) error {
			var role rbacv1.ClusterRole
			if err := yaml.UnmarshalStrict(text, &role); err != nil {
				return err
			}
			switch filepath.Base(filepath.Dir(file)) {
			case "nodes", "pods", "tokens":
				in.cluster.Rules = append(in.cluster.Rules, role.Rules...)
			default:
				in.features = append(in.features, role)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func load(path string) ([]byte, error) { return os.ReadFile(path) } //nolint:gosec // of the repository

// documents hands over each document of a YAML file.
func documents(path string, take func([]byte) error) error {
	text, err := load(path)
	if err != nil {
		return err
	}
	for document := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---\n")) {
		plain, err := yaml.YAMLToJSON(document)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if string(plain) == "null" { // comments
			continue
		}
		if err := take(document); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
