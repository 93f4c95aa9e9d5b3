// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"

	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/inject/sglang"
)

// matchesFlag is true where name is a spelling of the flag, as Argv.Last decides.
func matchesFlag(f sglang.Flag, name string) string {
	if f.Shortest != "" {
		return fmt.Sprintf("(%s.startsWith(%s) && %s.startsWith(%s))", name, literal(f.Shortest), literal(f.Name), name)
	}
	return name + " in " + literal(append([]string{f.Name}, f.Aliases...))
}

// indexVar is the name of the variable with the index of the last use of a flag, or -1.
func indexVar(f sglang.Flag) string {
	words := strings.Split(strings.TrimLeft(f.Name, "-"), "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return "at" + strings.ToUpper(words[0][:1]) + words[0][1:] + strings.Join(words[1:], "")
}

func given(f sglang.Flag) string { return "(" + elem(indexVar(f)) + " >= 0)" }

// inline is true where the flag's value is in the same word.
func inline(f sglang.Flag) string {
	return fmt.Sprintf("%s[%s].contains('=')", elem("words"), elem(indexVar(f)))
}

// value is the value of the flag, "" where it is not given.
func value(f sglang.Flag) string {
	word := fmt.Sprintf("%s[%s]", elem("words"), elem(indexVar(f)))
	next := elem(indexVar(f)) + " + 1"
	return firstMatch([]choice{
		{"!" + given(f), "''"},
		{inline(f), fmt.Sprintf("%[1]s.substring(%[1]s.indexOf('=') + 1)", word)},
		{fmt.Sprintf("%s < size(%s)", next, elem("words")), fmt.Sprintf("%s[%s]", elem("words"), next)},
	}, "''")
}

// readFlags declares the indices of the flags that Inject reads.
func (p *builder) readFlags() {
	flags := []sglang.Flag{sglang.ModelPath, sglang.ConfigFile, sglang.Hierarchical, sglang.StorageBackend, sglang.ExtraConfig, sglang.Disaggregation, sglang.DecodeRadixCache, sglang.DecodeOffload}
	for _, b := range sglang.Blockers {
		flags = append(flags, b.Flag)
	}
	for _, f := range flags {
		uses := matchesFlag(f, elem("names")+"[i]")
		if f.Valued {
			// The word after a flag is its value, even where it looks like the flag.
			before := strings.ReplaceAll(uses, "[i]", "[i - 1]")
			uses += fmt.Sprintf(" && !(i > 0 && %s && %s[i - 1] == %s[i - 1])", before, elem("names"), elem("words"))
		}
		p.perContainer(indexVar(f), fmt.Sprintf("([-1] + lists.range(size(%s)).filter(i, %s)).max()", elem("words"), uses))
	}
}

// decideFlags declares the flags to add and the reasons to add none, except for the extra config.
func (p *builder) decideFlags() {
	var refused []choice
	for _, b := range sglang.Blockers {
		when := given(b.Flag)
		if b.Value != "" {
			when = value(b.Flag) + " == " + literal(b.Value)
		}
		refused = append(refused, choice{when, literal(b.Reason())})
	}
	p.perContainer("decodes", fmt.Sprintf("%s == 'decode' && !%s", value(sglang.Disaggregation), given(sglang.DecodeRadixCache)))
	refused = append(refused,
		choice{elem("decodes") + " && !" + given(sglang.DecodeOffload), literal(reasons.DecodeWithoutRadixCache())},
		choice{
			fmt.Sprintf("%s && !(%s in %s)", given(sglang.StorageBackend), value(sglang.StorageBackend), literal([]string{sglang.DynamicBackend, sglang.BackendName})),
			"(" + text(reasons.OtherBackend(embed(value(sglang.StorageBackend)))) + ")",
		})
	p.perContainer("refusedFlag", firstMatch(refused, "''"))
	p.perContainer("addedFlags", fmt.Sprintf("(%s || %s ? [] : [%s]) + (%s ? [] : %s) + (%s ? [] : [%s, %s])",
		elem("decodes"), given(sglang.Hierarchical), literal(sglang.Hierarchical.Name),
		given(sglang.StorageBackend), literal([]string{sglang.StorageBackend.Name, sglang.DynamicBackend}),
		given(sglang.ExtraConfig), literal(sglang.ExtraConfig.Name), text(sglang.NewExtraConfig(p.settings()))))
}

// settings are the settings for the socket of the pod's group.
func (p *builder) settings() []sglang.Setting {
	return sglang.SocketSettings(embed("variables.socket"))
}
