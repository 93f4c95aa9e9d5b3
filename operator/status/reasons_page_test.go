// SPDX-License-Identifier: Apache-2.0

package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// consequences are reasons that repeat what another condition has a reason for, or say that nothing is wrong.
var consequences = []string{"AllDrained", "ConfigNotAccepted", "MembersBroken", "NoFaults", "NoMembers", "Settled"}

// The page of reasons is where a condition leads.
func TestThePageHasTheReasonsOfConditionsThatAreFalse(t *testing.T) {
	page, err := os.ReadFile("../../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range append(reasonsWhereFalse(t), reasonNoMember, reasonNotAttached, reasonPodsBlocked) {
		if !slices.Contains(consequences, reason) && !strings.Contains(string(page), "`"+reason+"`") {
			t.Errorf("docs/reasons.md lacks %s", reason)
		}
	}
}

// reasonsWhereFalse are the texts that this package gives newCondition beside ConditionFalse.
func reasonsWhereFalse(t *testing.T) []string {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	collect := func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) != 4 {
			return true
		}
		name, isName := call.Fun.(*ast.Ident)
		status, isStatus := call.Args[1].(*ast.SelectorExpr)
		reason, isText := call.Args[2].(*ast.BasicLit)
		if isName && isStatus && isText && name.Name == "newCondition" && status.Sel.Name == "Condition"+string(metav1.ConditionFalse) {
			text, err := strconv.Unquote(reason.Value)
			if err != nil {
				t.Fatal(err)
			}
			reasons = append(reasons, text)
		}
		return true
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, collect)
	}
	if len(reasons) < 20 {
		t.Fatalf("only %v: does newCondition have another name?", reasons)
	}
	return reasons
}
