// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/peercache/peercache/operator/plan"
)

// policyText collects the variables of a policy. Each may use those before it, and is evaluated once and only when it
// is needed. Those that are made by `each` are lists with one element for each container of the pod, at its index k.
type policyText struct {
	facts     Facts
	variables []admissionv1.Variable
}

func (p *policyText) let(name, expression string) {
	p.variables = append(p.variables, admissionv1.Variable{Name: name, Expression: expression})
}

func (p *policyText) each(name, expression string) {
	p.let(name, "variables.index.map(k, "+expression+")")
}

// its is the element of a variable that was made by each.
func its(name string) string { return "variables." + name + "[k]" }

// container is the container at index k.
const container = "variables.containers[k]"

// optional is a list of the container at index k, also where it has none.
func optional(field string) string {
	return fmt.Sprintf("(has(%[1]s.%[2]s) ? %[1]s.%[2]s : [])", container, field)
}

// hole marks the place of an expression in a text.
const hole = "\x00"

// in puts an expression into a text that is built by one of Inject's functions.
func in(expression string) string { return hole + expression + hole }

// text is the expression of a text with expressions in it.
func text(s string) string {
	var parts []string
	for i, part := range strings.Split(s, hole) {
		switch {
		case i%2 == 1:
			parts = append(parts, part)
		case part != "":
			parts = append(parts, strconv.Quote(part))
		}
	}
	return strings.Join(parts, " + ")
}

// literal is a value as CEL writes it. Lists and maps of CEL hold one type, so all but strings in a list are dyn.
func literal(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(v) // the escapes of Go are among those of CEL
	case []string:
		quoted := make([]string, len(v))
		for i, s := range v {
			quoted[i] = strconv.Quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	content, err := json.Marshal(value)
	if err != nil {
		panic(err) // parts of a pod can always be encoded
	}
	var decoded any
	if err := json.Unmarshal(content, &decoded); err != nil {
		panic(err)
	}
	return literalJSON(decoded)
}

func literalJSON(value any) string {
	var parts []string
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, strconv.Quote(key)+": dyn("+literalJSON(v[key])+")")
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, element := range v {
			parts = append(parts, "dyn("+literalJSON(element)+")")
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return strconv.Quote(v)
	case float64:
		return strconv.FormatInt(int64(v), 10) // what injection adds has no fractions
	default:
		return fmt.Sprint(v)
	}
}

// choice is an alternative of a decision.
type choice struct{ when, then string }

// first is the value of the first alternative whose condition holds. CEL evaluates no more than it needs.
func first(choices []choice, otherwise string) string {
	var b strings.Builder
	for _, c := range choices {
		fmt.Fprintf(&b, "%s ? %s : ", c.when, c.then)
	}
	return "(" + b.String() + otherwise + ")"
}

// anyOf joins conditions.
func anyOf(conditions ...string) string { return "(" + strings.Join(conditions, " || ") + ")" }

// socketOf is the socket of the group that an expression names.
func socketOf(group string) string { return plan.SocketPath(in(group)) }
