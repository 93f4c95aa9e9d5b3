// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"fmt"
	"strings"
)

// CEL has no JSON, but regular expressions can tell the members of an object whose values hold no further object and
// whose names have no escapes. Within such a text, an unescaped quote after { or , opens a name.
const (
	jsonBlank  = `[ \t\r\n]*`
	jsonString = `"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"`
	jsonPlain  = `(?:` + jsonString + `|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)`
	jsonList   = `\[` + jsonBlank + `(?:` + jsonPlain + jsonBlank + `(?:,` + jsonBlank + jsonPlain + jsonBlank + `)*)?\]`
	jsonValue  = `(?:` + jsonPlain + `|` + jsonList + `)`
	jsonMember = `"[^"\\\x00-\x1f]*"` + jsonBlank + `:` + jsonBlank + jsonValue + jsonBlank
	jsonFlat   = `^\{` + jsonBlank + `(?:` + jsonMember + `(?:,` + jsonBlank + jsonMember + `)*)?\}$`
)

// member finds the beginning of a member; a value may follow.
func member(key string) string {
	return `[{,]` + jsonBlank + `"` + key + `"` + jsonBlank + `:` + jsonBlank
}

// reasonNotFlat is the one reason that only the policy gives.
func reasonNotFlat() string {
	return "gives " + extraConfig.name + " a value that an admission policy cannot complete: write a JSON object without objects in it " +
		"and without escapes in its names, or choose injection.by: Webhook"
}

// decideConfig declares what becomes of the user's extra config, and why it is left alone, if so.
func (p *policyText) decideConfig() {
	p.each("config", value(extraConfig)+".trim()")
	config := its("config")
	refused := []choice{
		{config + ".startsWith('@')", "(" + text(reasonConfigInFile(in(config+".substring(1)"))) + ")"},
		{fmt.Sprintf("!(%[1]s.startsWith('{') && %[1]s.endsWith('}'))", config), literal(reasonNoObject())},
		{fmt.Sprintf("!%s.matches(%s)", config, literal(jsonFlat)), literal(reasonNotFlat())},
	}
	for _, check := range []struct{ key, ours string }{
		{"backend_name", "v == " + literal(`"`+backendName+`"`)},
		{"module_path", fmt.Sprintf("(v == %s || v.startsWith(%s))", literal(`"peercache"`), literal(`"peercache.`))},
	} {
		theirs := fmt.Sprintf("%s.findAll(%s).map(m, m.substring(m.indexOf(':') + 1).trim()).filter(v, !%s)",
			config, literal(member(check.key)+jsonValue), "("+check.ours+")")
		refused = append(refused, choice{
			"size(" + theirs + ") > 0", "(" + text(reasonForeignBackend(check.key, in(theirs+"[0]"))) + ")",
		})
	}
	refused = append(refused, choice{has(config, keyDiscovery), literal(reasonOwnNode())})
	p.each("flagReason", first([]choice{
		{its("refusedFlag") + " != ''", its("refusedFlag")},
		{"!" + given(extraConfig), "''"},
	}, first(refused, "''")))

	var pieces []string
	for _, s := range p.settings() {
		pieces = append(pieces, fmt.Sprintf("[%s, %s]", literal(member(s.key)), text(joinSettings([]setting{s}))))
	}
	p.each("missing", fmt.Sprintf("[%s].filter(s, !%s.matches(s[0])).map(s, s[1])", strings.Join(pieces, ", "), config))
	body := fmt.Sprintf("%[1]s.substring(0, size(%[1]s) - 1)", config)
	p.each("merged", fmt.Sprintf("!%s || %s != '' || size(%s) == 0 ? %s : %s + %s.join(',') + '}'",
		given(extraConfig), its("flagReason"), its("missing"), value(extraConfig),
		first([]choice{{fmt.Sprintf("%s.matches(%s)", config, literal(`^\{`+jsonBlank+`\}$`)), body}},
			fmt.Sprintf("%s.find(%s) + ','", body, literal(`(?s)^.*[^ \t\r\n]`))), its("missing")))
	p.each("rewrites", fmt.Sprintf("%s && %s != %s ? (%s ? %s : %s + 1) : -1", its("byFlags"), its("merged"), value(extraConfig), inline(extraConfig), its(at(extraConfig)), its(at(extraConfig))))
	p.each("rewritten", fmt.Sprintf("%s < 0 ? '' : (%s ? %s[%s] + '=' : '') + %s", its("rewrites"), inline(extraConfig), its("names"), its(at(extraConfig)), its("merged")))
}

func has(config, key string) string { return config + ".matches(" + literal(member(key)) + ")" }
