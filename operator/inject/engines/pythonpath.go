// SPDX-License-Identifier: Apache-2.0

package engines

import (
	"regexp"
	"strings"

	"github.com/peercache/peercache/operator/inject/names"
)

// Engines find the client by PYTHONPATH. Where that does not reach Python, an engine ends at its start with the added flags. These match
// words that are joined by line ends, and scripts in them.
var (
	// IsolatedPython matches a start of Python with -I or -E, alone or among others: it ignores PYTHONPATH.
	IsolatedPython = regexp.MustCompile(`(^|[\s/])python[0-9.]*(\s+-\S+)*\s+-[bBdiOPqsSuvx]*[EI][bBdEiIOPqsSuvx]*\s`)
	// SetsPythonPath matches an assignment, and KeepsPythonPath one that has the value before in it, or the client's folder.
	SetsPythonPath  = regexp.MustCompile(`\bPYTHONPATH=`)
	KeepsPythonPath = regexp.MustCompile(`\bPYTHONPATH=\S*(\$[({]?PYTHONPATH|` + regexp.QuoteMeta(names.ClientDir) + `)\b`)
)

// PythonPath says whether the words start Python without it, and whether they give it a value without the one before.
func PythonPath(words []string) (ignored, replaced bool) {
	joined := strings.Join(words, "\n")
	return IsolatedPython.MatchString(joined), SetsPythonPath.MatchString(joined) && !KeepsPythonPath.MatchString(joined)
}
