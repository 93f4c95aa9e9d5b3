// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/truncate"
)

const (
	// maxValue and maxPath bound a value and a path in a message: the text of an event has at most 1024 bytes.
	maxValue = 100
	maxPath  = 500
)

// digests are the paths in a DaemonSet's template that differ because something else does, the least telling first: the digest
// of the template itself, and that of the ConfigMap.
var digests = [][]string{
	{"spec", "template", "metadata", "labels", v1alpha1.LabelPodShape},
	{"spec", "template", "metadata", "labels", v1alpha1.LabelPodImages},
	{"spec", "template", "metadata", "annotations", v1alpha1.AnnotationConfigHash},
}

// FindMeaningful is Find, but returns a digest only when nothing more telling differs.
func FindMeaningful(want, have map[string]any) Difference {
	found := Find(want, have)
	rest := want
	for _, digest := range digests {
		rest = runtime.DeepCopyJSON(rest)
		unstructured.RemoveNestedField(rest, digest...)
		other := Find(rest, have)
		if other.Path == "" {
			break
		}
		found = other
	}
	return found
}

// Telling says whether it says what changed: it is of more than a digest.
func (d Difference) Telling() bool {
	return d.Path != "" && !slices.ContainsFunc(digests, func(digest []string) bool { return d.Path == strings.Join(digest, ".") })
}

// FindRemoved finds the first field that an object had before a write and no longer has.
func FindRemoved(before, after map[string]any) Difference {
	before = runtime.DeepCopyJSON(before)
	delete(before, "status")
	for _, counter := range [][]string{
		{"generation"}, {"managedFields"}, {"resourceVersion"},
		{"annotations", appsv1.DeprecatedTemplateGeneration}, {"annotations", v1alpha1.AnnotationAppliedHash},
	} {
		unstructured.RemoveNestedField(before, append([]string{"metadata"}, counter...)...)
	}
	gone := FindMeaningful(before, after)
	return Difference{Path: gone.Path, Want: gone.Have, Have: gone.Want}
}

// String names the field and its values. For lists and maps it names the field only. It hides values of environment
// variables: they may be secrets, and a user who may read events may not be allowed to read pods.
func (d Difference) String() string {
	path := truncate.Text(d.Path, maxPath)
	have, want := d.Have, d.Want
	if old, now, ok := multilineValues(d); ok {
		have, want = firstMissingLine(old, now), firstMissingLine(now, old)
	}
	switch {
	case strings.Contains(d.Path, ".env[") && strings.HasSuffix(d.Path, ".value"), have == nil && want == nil:
		return path
	case isScalar(have) && isScalar(want):
		return fmt.Sprintf("%s %s -> %s", path, formatValue(have), formatValue(want))
	case have == nil:
		return path + " is added"
	case want == nil:
		return path + " is removed"
	default:
		return path
	}
}

// multilineValues returns both values if they are texts and at least one has several lines.
func multilineValues(d Difference) (have, want string, ok bool) {
	have, okHave := d.Have.(string)
	want, okWant := d.Want.(string)
	return have, want, okHave && okWant && strings.Contains(have+want, "\n")
}

// firstMissingLine is the first line of a text that another text lacks; nil when there is none.
func firstMissingLine(text, other string) any {
	lines := strings.Split(other, "\n")
	for line := range strings.SplitSeq(text, "\n") {
		if !slices.Contains(lines, line) {
			return strings.TrimSpace(line)
		}
	}
	return nil
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

func formatValue(value any) string {
	if value == nil {
		return "(none)"
	}
	return truncate.Text(fmt.Sprint(value), maxValue)
}
