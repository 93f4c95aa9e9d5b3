// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/peercache/peercache/api/v1alpha1"
)

// What an event says of an object that a changed spec changes.

const (
	// maxValue bounds a value in a message, and maxPath the way to it: an event's text has at most 1024 bytes.
	maxValue = 100
	maxPath  = 500
)

// configHash is where a DaemonSet's template repeats, as a digest, what the ConfigMap says.
var configHash = []string{"spec", "template", "metadata", "annotations", v1alpha1.AnnotationConfigHash}

// telling is drift, but for a digest: that one differs is said only where nothing else does.
func telling(want, have map[string]any) difference {
	first := drift(want, have)
	if first.path != strings.Join(configHash, ".") {
		return first
	}
	rest := runtime.DeepCopyJSON(want)
	unstructured.RemoveNestedField(rest, configHash...)
	if other := drift(rest, have); other.path != "" {
		return other
	}
	return first
}

// dropped finds the first field that an object had before a write and has no longer.
func dropped(before, after map[string]any) difference {
	before = runtime.DeepCopyJSON(before)
	delete(before, "status")
	for _, counter := range [][]string{
		{"generation"}, {"managedFields"}, {"resourceVersion"},
		{"annotations", appsv1.DeprecatedTemplateGeneration}, {"annotations", v1alpha1.AnnotationAppliedHash},
	} {
		unstructured.RemoveNestedField(before, append([]string{"metadata"}, counter...)...)
	}
	gone := drift(before, after)
	return difference{path: gone.path, want: gone.have, have: gone.want}
}

// String names the field and, where they are short, its values: of lists and maps the field is enough. Values of
// environment variables may be secrets, and who may read events may not be allowed to read pods.
func (d difference) String() string {
	path := cut(d.path, maxPath)
	have, want := d.have, d.want
	if old, now, ok := texts(d); ok {
		have, want = lineOf(old, now), lineOf(now, old)
	}
	switch {
	case strings.Contains(d.path, ".env[") && strings.HasSuffix(d.path, ".value"), have == nil && want == nil:
		return path
	case short(have) && short(want):
		return fmt.Sprintf("%s %s -> %s", path, show(have), show(want))
	case have == nil:
		return path + " is added"
	case want == nil:
		return path + " is removed"
	default:
		return path
	}
}

// texts says whether both values are texts, of which at least one has several lines.
func texts(d difference) (have, want string, ok bool) {
	have, okHave := d.have.(string)
	want, okWant := d.want.(string)
	return have, want, okHave && okWant && strings.Contains(have+want, "\n")
}

// lineOf is the first line of a text that another lacks; nil when there is none.
func lineOf(text, other string) any {
	lines := strings.Split(other, "\n")
	for line := range strings.SplitSeq(text, "\n") {
		if !slices.Contains(lines, line) {
			return strings.TrimSpace(line)
		}
	}
	return nil
}

func short(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

func show(value any) string {
	if value == nil {
		return "(none)"
	}
	return cut(fmt.Sprint(value), maxValue)
}

// cut shortens a text that nobody reads to the end.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
