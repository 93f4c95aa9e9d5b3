// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// builder collects the variables of a policy. A variable may use those before it. The API server evaluates each at most once,
// when it is needed. Variables of perContainer are lists with one element for each container, at its index k.
type builder struct {
	facts inject.Facts
	// otherFacts are the facts for pods of other namespaces than that of the cluster. byNamespace chooses between both.
	otherFacts inject.Facts
	variables  []admissionv1.Variable
}

func (p *builder) declare(name, expression string) {
	p.variables = append(p.variables, admissionv1.Variable{Name: name, Expression: expression})
}

func (p *builder) perContainer(name, expression string) {
	p.declare(name, "variables.index.map(k, "+expression+")")
}

// byNamespace returns an expression that depends on whether the pod is in the cluster's namespace.
func (p *builder) byNamespace(expression func(inject.Facts) string) string {
	own, other := expression(p.facts), expression(p.otherFacts)
	if own == other {
		return own
	}
	return fmt.Sprintf("(variables.own ? %s : %s)", own, other)
}

// elem is the element of a variable of perContainer for the container at index k.
func elem(name string) string { return "variables." + name + "[k]" }

// container is the container at index k.
const container = "variables.containers[k]"

// optional is a list of the container at index k, empty where it has none.
func optional(field string) string {
	return fmt.Sprintf("(has(%[1]s.%[2]s) ? %[1]s.%[2]s : [])", container, field)
}

// placeholder marks an expression in a text.
const placeholder = "\x00"

// embed puts an expression into a text that one of Inject's functions builds.
func embed(expression string) string { return placeholder + expression + placeholder }

// text returns the CEL expression of a text with embedded expressions.
func text(s string) string {
	var parts []string
	for i, part := range strings.Split(s, placeholder) {
		switch {
		case i%2 == 1:
			parts = append(parts, part)
		case part != "":
			parts = append(parts, strconv.Quote(part))
		}
	}
	return strings.Join(parts, " + ")
}

// literal returns a value in CEL. Lists and maps of CEL hold one type, so every element except a string in a list is
// dyn.
func literal(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(v) // CEL has the escapes of Go
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
		return strconv.FormatInt(int64(v), 10) // injection adds no fractions
	default:
		return fmt.Sprint(v)
	}
}

// choice is an alternative of a decision.
type choice struct{ when, then string }

// firstMatch returns the value of the first alternative whose condition holds. CEL evaluates no later ones.
func firstMatch(choices []choice, otherwise string) string {
	var b strings.Builder
	for _, c := range choices {
		fmt.Fprintf(&b, "%s ? %s : ", c.when, c.then)
	}
	return "(" + b.String() + otherwise + ")"
}

// anyOf is true where one of the conditions holds.
func anyOf(conditions ...string) string { return "(" + strings.Join(conditions, " || ") + ")" }

// socketOf is the path of the socket of a group, which an expression names.
func socketOf(group string) string { return plan.SocketPath(embed(group)) }
