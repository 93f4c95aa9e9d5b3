// SPDX-License-Identifier: Apache-2.0

package inject

import (
	goflag "flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Every case is a pod in testdata/<case>.in.yaml and what becomes of it in testdata/<case>.out.yaml.
// After an intended change write the latter anew and read the difference:
//
//	go test ./operator/inject -run TestGolden -update && git diff
var update = goflag.Bool("update", false, "write the expected pods of TestGolden anew")

func testFacts() Facts {
	return Facts{
		Cluster: "kv", Namespace: "serving", Groups: []string{"default"},
		ClientImage: "docker.io/peercache/client:0.1.0", ClientPullPolicy: corev1.PullIfNotPresent,
	}
}

// factsOf are the facts of cases that need others than the usual.
var factsOf = map[string]func(*Facts){
	"group-annotation":        func(f *Facts) { f.Groups = []string{"numa0", "numa1"} },
	"group-unknown":           func(f *Facts) { f.Groups = []string{"numa0", "numa1"} },
	"group-first-of-several":  func(f *Facts) { f.Groups = []string{"numa0", "numa1"} },
	"cluster-elsewhere":       func(f *Facts) { f.Namespace = "caches" },
	"pull-secrets-of-cluster": func(f *Facts) { f.PullSecrets = []corev1.LocalObjectReference{{Name: "registry"}} },
	"pull-secret-already-there": func(f *Facts) {
		f.PullSecrets = []corev1.LocalObjectReference{{Name: "registry"}, {Name: "mirror"}}
	},
}

func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) < 40 {
		t.Fatalf("found %d cases in testdata (error %v), which must hold at least 40", len(inputs), err)
	}
	seen := map[string]bool{}
	for _, input := range inputs {
		name := strings.TrimSuffix(filepath.Base(input), ".in.yaml")
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			pod := readPod(t, input)
			facts := testFacts()
			if adjust, ok := factsOf[name]; ok {
				adjust(&facts)
			}
			before := pod.DeepCopy()
			result := Inject(pod, facts)
			checkResult(t, before, pod, result, facts)

			output := strings.Replace(input, ".in.yaml", ".out.yaml", 1)
			got, err := yaml.Marshal(result.Pod)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(output, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(output)
			if err != nil {
				t.Fatalf("%v: write it with -update", err)
			}
			if string(got) != string(want) {
				t.Errorf("the pod differs from %s; got:\n%s", output, got)
			}
		})
	}
	for name := range factsOf {
		if !seen[name] {
			t.Errorf("case %s has facts but no testdata/%s.in.yaml", name, name)
		}
	}
	outputs, err := filepath.Glob("testdata/*.out.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, output := range outputs {
		if !slices.Contains(inputs, strings.Replace(output, ".out.yaml", ".in.yaml", 1)) {
			t.Errorf("%s belongs to no case", output)
		}
	}
}

func readPod(t *testing.T, file string) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return pod
}
