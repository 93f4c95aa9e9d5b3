// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestRotation follows a rotation through the Secret, with an operator that restarts before each pass.
func TestRotation(t *testing.T) {
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	secret := &corev1.Secret{}
	look := func(asked string, after time.Duration) Token {
		t.Helper()
		token, problem := ReadToken(secret)
		if problem != nil {
			t.Fatal(problem)
		}
		token.Next(asked, start.Add(after)).Write(secret)
		token, problem = ReadToken(secret)
		if problem != nil {
			t.Fatal(problem)
		}
		return token
	}
	NewToken("").Write(secret)
	first := look("", 0)
	if len(first.Lines) != 1 || len(first.Lines[0]) != 64 || first.Step != 0 || len(secret.Annotations) != 0 {
		t.Fatalf("the first: %+v, annotations %v", first, secret.Annotations)
	}
	begun := look("a", 0)
	old, fresh := first.Lines[0], begun.Lines[1]
	if old == fresh || len(fresh) != 64 {
		t.Fatalf("tokens %q", begun.Lines)
	}
	if over := begun.End(); !over.Equal(start.Add(10 * time.Minute)) {
		t.Errorf("it is to be over at %s", over)
	}
	for _, at := range []struct {
		after time.Duration
		asked string
		step  int
		lines []string
	}{
		{179 * time.Second, "a", 1, []string{old, fresh}},
		{180 * time.Second, "a", 2, []string{fresh, old}},
		{181 * time.Second, "b", 2, []string{fresh, old}}, // another rotation is requested, and this one continues
		{359 * time.Second, "b", 2, []string{fresh, old}},
		{400 * time.Second, "b", 3, []string{fresh}}, // the operator is late
		{639 * time.Second, "b", 3, []string{fresh}},
		{640 * time.Second, "a", 0, []string{fresh}},
		{700 * time.Second, "a", 0, []string{fresh}}, // one rotation for each value
		{700 * time.Second, "", 0, []string{fresh}},
	} {
		got := look(at.asked, at.after)
		if got.Step != at.step || strings.Join(got.Lines, " ") != strings.Join(at.lines, " ") || got.Rotation != "a" {
			t.Errorf("after %s: %+v, want step %d and %q", at.after, got, at.step, at.lines)
		}
	}
	if again := look("b", time.Hour); again.Step != 1 || again.Rotation != "b" || again.Lines[0] != fresh {
		t.Errorf("the next: %+v", again)
	}
}

// TestNewTokenStartsNoRotation checks that a rotation requested before the first token has nothing to do.
func TestNewTokenStartsNoRotation(t *testing.T) {
	token := NewToken("a")
	if next := token.Next("a", time.Now()); !next.Equal(token) {
		t.Errorf("%+v became %+v", token, next)
	}
	if other := NewToken("a"); other.Lines[0] == token.Lines[0] {
		t.Error("two tokens are equal")
	}
}

func TestReadTokenProblems(t *testing.T) {
	for name, test := range map[string]struct {
		text        string
		annotations map[string]string
	}{
		"none":         {"", nil},
		"blanks":       {" \r\n\n", nil},
		"of 64 bits":   {"0123456789abcdef\n", nil},
		"one short":    {strings.Repeat("x", 22) + "\nshort\n", nil},
		"no step":      {strings.Repeat("x", 22), map[string]string{annotationStep: "no"}},
		"unknown step": {strings.Repeat("x", 22), map[string]string{annotationStep: "4", annotationSince: "2026-03-02T12:00:00Z"}},
		"no time":      {strings.Repeat("x", 22), map[string]string{annotationStep: "1"}},
	} {
		secret := &corev1.Secret{Data: map[string][]byte{TokenKey: []byte(test.text)}}
		secret.Namespace, secret.Name, secret.Annotations = "inference", "demo-token", test.annotations
		if _, problem := ReadToken(secret); problem == nil || problem.Reason != "TokenInvalid" || !strings.Contains(problem.Message, "inference/demo-token") {
			t.Errorf("%s: %v", name, problem)
		}
	}
}
