// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
)

// The patch is the one that comparing whole pods gives, for every golden case in both directions.
func TestDiffIsThatOfWholePods(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) < 120 {
		t.Fatalf("found %d cases (error %v)", len(inputs), err)
	}
	operations := 0
	for _, input := range inputs {
		before, after := readPod(t, input), readPod(t, strings.Replace(input, ".in.yaml", ".out.yaml", 1))
		before.Status.Phase, after.Status.Phase = corev1.PodPending, corev1.PodPending
		operations += len(wholeDiff(t, before, after))
		for _, pair := range [][2]*corev1.Pod{{before, after}, {after, before}, {after, after}, {{}, before}} {
			from, to := pair[0].DeepCopy(), pair[1].DeepCopy()
			got, err := diff(from, to)
			if err != nil {
				t.Fatal(err)
			}
			if want := wholeDiff(t, pair[0], pair[1]); !reflect.DeepEqual(ordered(got), want) {
				t.Errorf("%s: the patch is %v, of whole pods %v", input, ordered(got), want)
			}
			if !reflect.DeepEqual(from, pair[0]) || !reflect.DeepEqual(to, pair[1]) {
				t.Errorf("%s: the pods were changed", input)
			}
		}
	}
	if operations < 300 {
		t.Errorf("the cases need %d operations only", operations)
	}
}

func wholeDiff(t *testing.T, before, after *corev1.Pod) []jsonpatch.JsonPatchOperation {
	t.Helper()
	var texts [2][]byte
	for i, pod := range []*corev1.Pod{before, after} {
		text, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = text
	}
	operations, err := jsonpatch.CreatePatch(texts[0], texts[1])
	if err != nil {
		t.Fatal(err)
	}
	return ordered(operations)
}

// ordered sorts: operations on different fields come in the order of a map. Those on one list keep theirs, for they
// differ in their paths' ends.
func ordered(operations []jsonpatch.JsonPatchOperation) []jsonpatch.JsonPatchOperation {
	slices.SortStableFunc(operations, func(a, b jsonpatch.JsonPatchOperation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Operation, b.Operation))
	})
	return operations
}
