// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/engines/sglang"
)

// CEL cannot parse JSON. Regular expressions can find the members of an object whose values hold no object and whose names
// have no escapes: in such a text, an unescaped quote after { or , opens a name.
const (
	jsonBlank  = `[ \t\r\n]*`
	jsonString = `"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"`
	jsonPlain  = `(?:` + jsonString + `|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)`
	jsonList   = `\[` + jsonBlank + `(?:` + jsonPlain + jsonBlank + `(?:,` + jsonBlank + jsonPlain + jsonBlank + `)*)?\]`
	jsonValue  = `(?:` + jsonPlain + `|` + jsonList + `)`
	jsonMember = `"[^"\\\x00-\x1f]*"` + jsonBlank + `:` + jsonBlank + jsonValue + jsonBlank
	jsonFlat   = `^\{` + jsonBlank + `(?:` + jsonMember + `(?:,` + jsonBlank + jsonMember + `)*)?\}$`
)

// member returns a pattern for the beginning of a member, before its value.
func member(key string) string {
	return `[{,]` + jsonBlank + `"` + key + `"` + jsonBlank + `:` + jsonBlank
}

// reasonNotFlat is the only reason that inject.Inject does not have.
func reasonNotFlat() string {
	return "gives " + sglang.ExtraConfig.Name + " a value that an admission policy cannot complete: write a JSON object without objects in it " +
		"and without escapes in its names, or choose injection.by: Webhook"
}

// decideConfig declares the merged extra config, and the reason to leave the container alone.
func (p *builder) decideConfig() {
	p.perContainer("config", value(sglang.ExtraConfig)+".trim()")
	config := elem("config")
	refused := []choice{
		{config + ".startsWith('@')", "(" + text(sglang.ConfigInFile(embed(config+".substring(1)"))) + ")"},
		{fmt.Sprintf("!(%[1]s.startsWith('{') && %[1]s.endsWith('}'))", config), literal(sglang.ConfigNotObject())},
		{fmt.Sprintf("!%s.matches(%s)", config, literal(jsonFlat)), literal(reasonNotFlat())},
	}
	for _, check := range []struct{ key, matches string }{
		{"backend_name", "v == " + literal(`"`+sglang.BackendName+`"`)},
		{"module_path", fmt.Sprintf("(v == %s || v.startsWith(%s))", literal(`"peercache"`), literal(`"peercache.`))},
	} {
		theirs := fmt.Sprintf("%s.findAll(%s).map(m, m.substring(m.indexOf(':') + 1).trim()).filter(v, !%s)",
			config, literal(member(check.key)+jsonValue), "("+check.matches+")")
		refused = append(refused, choice{
			"size(" + theirs + ") > 0", "(" + text(sglang.ConfigOtherBackend(check.key, embed(theirs+"[0]"))) + ")",
		})
	}
	refused = append(refused, choice{has(config, sglang.KeyDiscovery), literal(sglang.ConfigOwnNode())})
	p.perContainer("flagReason", firstMatch([]choice{
		{elem("refusedFlag") + " != ''", elem("refusedFlag")},
		{"!" + given(sglang.ExtraConfig), "''"},
	}, firstMatch(refused, "''")))

	var pieces []string
	for _, s := range p.settings() {
		pieces = append(pieces, fmt.Sprintf("[%s, %s]", literal(member(s.Key)), text(sglang.JoinSettings([]engines.Setting{s}))))
	}
	p.perContainer("missing", fmt.Sprintf("[%s].filter(s, !%s.matches(s[0])).map(s, s[1])", strings.Join(pieces, ", "), config))
	body := fmt.Sprintf("%[1]s.substring(0, size(%[1]s) - 1)", config)
	p.perContainer("merged", fmt.Sprintf("!%s || %s != '' || size(%s) == 0 ? %s : %s + %s.join(',') + '}'",
		given(sglang.ExtraConfig), elem("flagReason"), elem("missing"), value(sglang.ExtraConfig),
		firstMatch([]choice{{fmt.Sprintf("%s.matches(%s)", config, literal(`^\{`+jsonBlank+`\}$`)), body}},
			fmt.Sprintf("%s.find(%s) + ','", body, literal(`(?s)^.*[^ \t\r\n]`))), elem("missing")))
	p.perContainer("rewrites", fmt.Sprintf("%s && %s != %s ? (%s ? %s : %s + 1) : -1", elem("byFlags"), elem("merged"), value(sglang.ExtraConfig), inline(sglang.ExtraConfig), elem(indexVar(sglang.ExtraConfig)), elem(indexVar(sglang.ExtraConfig))))
	p.perContainer("rewritten", fmt.Sprintf("%s < 0 ? '' : (%s ? %s[%s] + '=' : '') + %s", elem("rewrites"), inline(sglang.ExtraConfig), elem("names"), elem(indexVar(sglang.ExtraConfig)), elem("merged")))
}

func has(config, key string) string { return config + ".matches(" + literal(member(key)) + ")" }
