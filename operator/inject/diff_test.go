// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"gomodules.xyz/jsonpatch/v2"
	applying "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/injecttest"
)

// TestDiffEqualsFullDiff checks that the patch changes one pod into the other, and equals the patch between whole pods, for
// every golden case in both directions.
func TestDiffEqualsFullDiff(t *testing.T) {
	operations := 0
	for _, file := range injecttest.CaseFiles(t, "testdata") {
		c := injecttest.ReadCase(t, file)
		before, after := &c.Pod, c.AfterPod(t)
		before.Status.Phase, after.Status.Phase = corev1.PodPending, corev1.PodPending
		operations += len(fullDiff(t, before, after))
		for _, pair := range [][2]*corev1.Pod{{before, after}, {after, before}, {after, after}, {{}, before}} {
			from, to := pair[0].DeepCopy(), pair[1].DeepCopy()
			got, err := diff(from, to)
			if err != nil {
				t.Fatal(err)
			}
			checkApplied(t, from, to, got)
			if want := fullDiff(t, pair[0], pair[1]); !reflect.DeepEqual(ordered(got), want) {
				t.Errorf("%s: the patch is %v, of whole pods %v", file, ordered(got), want)
			}
			if !reflect.DeepEqual(from, pair[0]) || !reflect.DeepEqual(to, pair[1]) {
				t.Errorf("%s: the pods were changed", file)
			}
		}
	}
	if operations < 300 {
		t.Errorf("the cases need %d operations only", operations)
	}
}

// checkApplied applies the operations in the order in which they are sent.
func checkApplied(t *testing.T, before, after *corev1.Pod, operations []jsonpatch.JsonPatchOperation) {
	t.Helper()
	original, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := applying.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply(original)
	if err != nil {
		t.Fatalf("%s cannot be applied to %s: %v", text, original, err)
	}
	want, err := json.Marshal(after)
	if err != nil {
		t.Fatal(err)
	}
	if !applying.Equal(patched, want) {
		t.Errorf("%s makes %s, want %s", text, patched, want)
	}
}

func fullDiff(t *testing.T, before, after *corev1.Pod) []jsonpatch.JsonPatchOperation {
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

// ordered returns a sorted copy for comparison. Operations on different fields come in the order of a map. The sorted list
// cannot be applied, because operations on one list depend on their order.
func ordered(operations []jsonpatch.JsonPatchOperation) []jsonpatch.JsonPatchOperation {
	operations = slices.Clone(operations)
	slices.SortStableFunc(operations, func(a, b jsonpatch.JsonPatchOperation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Operation, b.Operation))
	})
	return operations
}
