// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Errorf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); panic(r) }
func (r *recorder) Fatal(args ...any)                 { r.Fatalf("%s", fmt.Sprint(args...)) }

func TestRun(t *testing.T) {
	const right = "# Words.\n> say a b\na\nb\n> say\n\n> say c\nc\n"
	for name, test := range map[string]struct{ script, rewrite, ci, want, written string }{
		"right":             {script: right},
		"other":             {script: strings.Replace(right, "\nb", "\nx\ny", 1), want: "2: > say a b\nprints\na\nb\n, not\na\nx\ny\n. If it is right"},
		"missing":           {script: strings.Replace(right, "\nc", "\n", 1), want: "7: > say c\nprints\nc\n, not\n. If it is right"},
		"written":           {script: strings.Replace(right, "\nb", "\nx\ny", 1), rewrite: "1", written: right},
		"not in CI":         {script: right, rewrite: "1", ci: "true", want: "REWRITE is set in CI"},
		"no sense":          {script: right + "> sya d\n", rewrite: "1", want: "9: > sya d\nno command"},
		"output of no step": {script: "a\n> say a\na\n", want: "1: no step prints this: a"},
		"no step":           {script: "# nothing\n", want: "has no step"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("REWRITE", test.rewrite)
			t.Setenv("CI", test.ci)
			file := filepath.Join(t.TempDir(), "script.txt")
			if err := os.WriteFile(file, []byte(test.script), 0o600); err != nil {
				t.Fatal(err)
			}
			got := &recorder{TB: t}
			func() {
				defer func() { _ = recover() }()
				Run(got, file, func(words []string) (string, error) {
					if words[0] != "say" {
						return "", errors.New("no command")
					}
					return strings.Join(words[1:], "\n"), nil
				})
			}()
			if (test.want == "") != (got.text == "") || !strings.Contains(got.text, test.want) {
				t.Errorf("it fails with %q, want %q", got.text, test.want)
			}
			if test.written == "" {
				test.written = test.script
			}
			if after, err := os.ReadFile(file); err != nil || string(after) != test.written {
				t.Errorf("the file is then %q, want %q: %v", after, test.written, err)
			}
		})
	}
}
