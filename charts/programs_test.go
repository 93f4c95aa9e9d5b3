// SPDX-License-Identifier: Apache-2.0

//go:build render

package charts

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	release   = "peercache"
	namespace = "peercache-system"
	// kubeVersion is what `helm template` renders for; without a cluster it would assume a version of its own.
	kubeVersion = "1.36.3"
)

// program finds a program by an environment variable or on PATH, and fails where there is none, because a
// test that does not run proves nothing.
func program(t *testing.T, variable, name string) string {
	t.Helper()
	wanted := os.Getenv(variable)
	if wanted == "" {
		wanted = name
	}
	path, err := exec.LookPath(wanted)
	if err != nil {
		t.Fatalf("%s is missing: %v: run `make test-render`, which builds it, or name it in %s", name, err, variable)
	}
	return path
}

// run returns what a program writes to standard output; err holds what it writes to standard error.
func run(ctx context.Context, program string, args ...string) (stdout, stderr string, err error) {
	command := exec.CommandContext(ctx, program, args...)
	var out, messages bytes.Buffer
	command.Stdout, command.Stderr = &out, &messages
	err = command.Run()
	return out.String(), messages.String(), err
}

// helmTemplate renders the chart with some values, as `--set` takes them.
func helmTemplate(t *testing.T, values ...string) objects {
	t.Helper()
	args := []string{"template", release, "peercache", "--namespace", namespace, "--kube-version", kubeVersion}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	stdout, stderr, err := run(t.Context(), program(t, "HELM", "helm"), args...)
	if err != nil {
		t.Fatalf("helm %q: %v: %s", args, err, stderr)
	}
	return parseObjects(t, stdout)
}

// kustomizeBuild renders a folder with kustomize, or with the kustomize inside kubectl.
func kustomizeBuild(t *testing.T, folder string) objects {
	t.Helper()
	var binary, verb string
	if path, err := exec.LookPath("kustomize"); os.Getenv("KUSTOMIZE") != "" || err == nil {
		binary, verb = path, "build"
		if os.Getenv("KUSTOMIZE") != "" {
			binary = program(t, "KUSTOMIZE", "kustomize")
		}
	} else {
		binary, verb = program(t, "KUBECTL", "kubectl"), "kustomize"
	}
	stdout, stderr, err := run(t.Context(), binary, verb, folder)
	if err != nil {
		t.Fatalf("%s %s %s: %v: %s", binary, verb, folder, err, stderr)
	}
	return parseObjects(t, stdout)
}

// id names an object.
type id struct{ kind, namespace, name string }

// objects are rendered objects by name.
type objects map[id]*unstructured.Unstructured

func parseObjects(t *testing.T, text string) objects {
	t.Helper()
	all := objects{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); err != nil {
			if err.Error() == "EOF" {
				return all
			}
			t.Fatalf("reading the rendered objects: %v\n%s", err, text)
		}
		if len(object.Object) == 0 {
			continue
		}
		key := id{object.GetKind(), object.GetNamespace(), object.GetName()}
		if all[key] != nil {
			t.Errorf("%v is rendered twice", key)
		}
		all[key] = object
	}
}

func (o objects) get(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for key, object := range o {
		if key.kind == kind && key.name == name {
			return object
		}
	}
	t.Fatalf("%s %s is not rendered", kind, name)
	return nil
}

func (o objects) has(kind string) bool {
	for key := range o {
		if key.kind == kind {
			return true
		}
	}
	return false
}
