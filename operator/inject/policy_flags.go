// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"fmt"
	"strings"
)

// matchesFlag says whether a name is a flag's, as flag.matches does.
func matchesFlag(f flag, name string) string {
	if f.shortest != "" {
		return fmt.Sprintf("(%s.startsWith(%s) && %s.startsWith(%s))", name, literal(f.shortest), literal(f.name), name)
	}
	return name + " in " + literal(append([]string{f.name}, f.aliases...))
}

// at is the variable that holds the word of a flag that counts, the last, or -1.
func at(f flag) string {
	words := strings.Split(strings.TrimLeft(f.name, "-"), "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return "at" + strings.ToUpper(words[0][:1]) + words[0][1:] + strings.Join(words[1:], "")
}

func given(f flag) string { return "(" + its(at(f)) + " >= 0)" }

// inline says whether the flag's value is in the same word.
func inline(f flag) string { return fmt.Sprintf("%s[%s].contains('=')", its("words"), its(at(f))) }

// value is that of the flag, empty where it is not given.
func value(f flag) string {
	word := fmt.Sprintf("%s[%s]", its("words"), its(at(f)))
	next := its(at(f)) + " + 1"
	return first([]choice{
		{"!" + given(f), "''"},
		{inline(f), fmt.Sprintf("%[1]s.substring(%[1]s.indexOf('=') + 1)", word)},
		{fmt.Sprintf("%s < size(%s)", next, its("words")), fmt.Sprintf("%s[%s]", its("words"), next)},
	}, "''")
}

// readFlags declares where the flags are that flags.go looks at.
func (p *policyText) readFlags() {
	flags := []flag{modelPath, configFile, hierarchical, storageBackend, extraConfig, disaggregation, decodeRadixCache, decodeOffload}
	for _, b := range blockers {
		flags = append(flags, b.flag)
	}
	for _, f := range flags {
		uses := matchesFlag(f, its("names")+"[i]")
		if f.valued {
			// What follows a flag is its value, also where it looks like the flag.
			before := strings.ReplaceAll(uses, "[i]", "[i - 1]")
			uses += fmt.Sprintf(" && !(i > 0 && %s && %s[i - 1] == %s[i - 1])", before, its("names"), its("words"))
		}
		p.each(at(f), fmt.Sprintf("([-1] + lists.range(size(%s)).filter(i, %s)).max()", its("words"), uses))
	}
}

// decideFlags declares what decideFlags decides but for the extra config: the flags to add, and why there are none.
func (p *policyText) decideFlags() {
	var refused []choice
	for _, b := range blockers {
		when := given(b.flag)
		if b.value != "" {
			when = value(b.flag) + " == " + literal(b.value)
		}
		refused = append(refused, choice{when, literal(b.reason())})
	}
	p.each("decodes", fmt.Sprintf("%s == 'decode' && !%s", value(disaggregation), given(decodeRadixCache)))
	refused = append(refused,
		choice{its("decodes") + " && !" + given(decodeOffload), literal(reasonDecode())},
		choice{
			fmt.Sprintf("%s && !(%s in %s)", given(storageBackend), value(storageBackend), literal([]string{dynamicBackend, backendName})),
			"(" + text(reasonBackend(in(value(storageBackend)))) + ")",
		})
	p.each("refusedFlag", first(refused, "''"))
	p.each("addedFlags", fmt.Sprintf("(%s || %s ? [] : [%s]) + (%s ? [] : %s) + (%s ? [] : [%s, %s])",
		its("decodes"), given(hierarchical), literal(hierarchical.name),
		given(storageBackend), literal([]string{storageBackend.name, dynamicBackend}),
		given(extraConfig), literal(extraConfig.name), text(newExtraConfig(p.settings()))))
}

// settings lead to the socket of the pod's group.
func (p *policyText) settings() []setting { return socketSettings(in("variables.socket")) }
