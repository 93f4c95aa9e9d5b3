// SPDX-License-Identifier: Apache-2.0

package injecttest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Suffix ends the name of each file of inject/testdata. It says that the file has what comes out of injection.
const Suffix = ".out.yaml"

// A Case is a file of inject/testdata: a pod, and what injection makes of it.
type Case struct {
	// Facts name what the cluster has that most cases do not need. golden_test.go knows the names.
	Facts []string `json:"facts,omitempty"`
	// Pod is the pod before injection.
	Pod corev1.Pod `json:"pod"`
	// Injected is the whole pod after injection. A few cases have it, to be read as a whole. The others have Patch.
	Injected map[string]any `json:"injected,omitempty"`
	// Patch changes Pod into the pod after injection. The comment of patch in patch.go has its form.
	Patch map[string]any `json:"patch,omitempty"`

	file string
}

// CaseFiles returns the files of all cases in a folder.
func CaseFiles(t testing.TB, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"+Suffix))
	if err != nil || len(files) < 120 {
		t.Fatalf("found %d cases in %s (error %v), which must hold at least 120", len(files), folder, err)
	}
	return files
}

// CaseName returns the name of the case in a file.
func CaseName(file string) string { return strings.TrimSuffix(filepath.Base(file), Suffix) }

// ReadCase reads a case.
func ReadCase(t testing.TB, file string) *Case {
	t.Helper()
	c, err := readCase(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ReadPod reads the pod of a case before injection.
func ReadPod(t testing.TB, file string) *corev1.Pod {
	t.Helper()
	return &ReadCase(t, file).Pod
}

func readCase(file string) (*Case, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the test names the file
	if err != nil {
		return nil, fmt.Errorf("reading a case: %w", err)
	}
	c := &Case{file: file}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if c.Injected != nil && c.Patch != nil {
		return nil, fmt.Errorf("%s has both injected and patch", file)
	}
	return c, nil
}

// Name returns the name of the case.
func (c *Case) Name() string { return CaseName(c.file) }

// After returns the whole pod after injection: injected, or the pod changed by the patch.
func (c *Case) After() (map[string]any, error) {
	if c.Injected != nil {
		return c.Injected, nil
	}
	if c.Patch == nil {
		return nil, fmt.Errorf("%s has neither injected nor patch: write it with -update", c.file)
	}
	before, err := asMap(&c.Pod)
	if err != nil {
		return nil, err
	}
	parts, err := readParts(filepath.Dir(c.file))
	if err != nil {
		return nil, err
	}
	after, err := parts.apply(before, c.Patch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.file, err)
	}
	return after.(map[string]any), nil
}

// AfterPod is After as a pod.
func (c *Case) AfterPod(t testing.TB) *corev1.Pod {
	t.Helper()
	after, err := c.After()
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(after)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		t.Fatalf("%s: %v", c.file, err)
	}
	return pod
}

// Update writes what injection has made of the pod, in the form that the file has. A case without either gets a patch.
func (c *Case) Update(injected *corev1.Pod) error {
	after, err := asMap(injected)
	if err != nil {
		return err
	}
	written := map[string]any{"injected": after}
	if c.Injected == nil {
		before, err := asMap(&c.Pod)
		if err != nil {
			return err
		}
		parts, err := readParts(filepath.Dir(c.file))
		if err != nil {
			return err
		}
		written = map[string]any{"patch": parts.diff(before, after)}
	}
	end, err := yaml.Marshal(written)
	if err != nil {
		return fmt.Errorf("encoding what injection made: %w", err)
	}
	text, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("reading a case: %w", err)
	}
	// What people have written comes first, and stays as they wrote it.
	begin := string(text)
	for _, key := range []string{"\ninjected:", "\npatch:"} {
		begin, _, _ = strings.Cut(begin, key)
	}
	if err := os.WriteFile(c.file, []byte(strings.TrimRight(begin, "\n")+"\n"+string(end)), 0o644); err != nil { //nolint:gosec // all may read it
		return fmt.Errorf("writing a case: %w", err)
	}
	return nil
}

func asMap(pod *corev1.Pod) (map[string]any, error) {
	text, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encoding a pod: %w", err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("decoding a pod: %w", err)
	}
	return m, nil
}
