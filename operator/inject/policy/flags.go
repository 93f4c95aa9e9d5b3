// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/engines/sglang"
)

// matchesFlag is true where name is a spelling of the flag, as Argv.Last decides.
func matchesFlag(f engines.Flag, name string) string {
	if f.Shortest != "" {
		return fmt.Sprintf("(%s.startsWith(%s) && %s.startsWith(%s))", name, literal(f.Shortest), literal(f.Name), name)
	}
	return name + " in " + literal(append([]string{f.Name}, f.Aliases...))
}

// indexVar is the name of the variable with the index of the last use of a flag, or -1.
func indexVar(f engines.Flag) string {
	words := strings.Split(strings.TrimLeft(f.Name, "-"), "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return "at" + strings.ToUpper(words[0][:1]) + words[0][1:] + strings.Join(words[1:], "")
}

func given(f engines.Flag) string { return "(" + elem(indexVar(f)) + " >= 0)" }

// inline is true where the flag's value is in the same word.
func inline(f engines.Flag) string {
	return fmt.Sprintf("%s[%s].contains('=')", elem("words"), elem(indexVar(f)))
}

// value is the value of the flag, "" where it is not given.
func value(f engines.Flag) string {
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
	flags := []engines.Flag{sglang.ModelPath, engines.ConfigFile, sglang.Hierarchical, sglang.StorageBackend, sglang.ExtraConfig, sglang.Disaggregation, sglang.DecodeRadixCache, sglang.DecodeOffload, sglang.PageSize, sglang.EagleTopK}
	for _, b := range sglang.Blockers {
		flags = append(append(flags, b.Flag), b.With...)
	}
	for _, r := range sglang.PageRules {
		flags = append(flags, r.Flag)
	}
	for _, a := range sglang.Advices {
		flags = append(flags, a.Flag)
	}
	flags = append(flags, sglang.PageMultiples...)
	declared := map[string]bool{}
	for _, f := range flags {
		if declared[f.Name] {
			continue
		}
		declared[f.Name] = true
		uses := matchesFlag(f, elem("names")+"[i]")
		if f.Valued {
			// The word after a flag is its value, even where it looks like the flag.
			before := strings.ReplaceAll(uses, "[i]", "[i - 1]")
			uses += fmt.Sprintf(" && !(i > 0 && %s && %s[i - 1] == %s[i - 1])", before, elem("names"), elem("words"))
		}
		p.perContainer(indexVar(f), fmt.Sprintf("([-1] + lists.range(size(%s)).filter(i, %s)).max()", elem("words"), uses))
	}
}

// blocks is Blocker.Blocks.
func blocks(b sglang.Blocker) string {
	all := []string{given(b.Flag)}
	if b.Value != "" {
		all = append(all, value(b.Flag)+" == "+literal(b.Value))
	}
	if b.Except != "" {
		all = append(all, value(b.Flag)+" != "+literal(b.Except))
	}
	if b.With != nil {
		var with []string
		for _, flag := range b.With {
			with = append(with, given(flag))
		}
		all = append(all, anyOf(with...))
	}
	if b.Sometimes {
		all = append(all, "!"+given(sglang.Hierarchical))
	}
	return strings.Join(all, " && ")
}

// decideFlags declares the flags to add and the reasons to add none, except for the extra config.
func (p *builder) decideFlags() {
	var refused []choice
	for _, b := range sglang.Blockers {
		refused = append(refused, choice{blocks(b), literal(b.Reason())})
	}
	p.perContainer("decodes", fmt.Sprintf("%s == 'decode' && !%s", value(sglang.Disaggregation), given(sglang.DecodeRadixCache)))
	refused = append(refused,
		choice{elem("decodes") + " && !" + given(sglang.DecodeOffload), literal(sglang.DecodeWithoutRadixCache())},
		choice{
			fmt.Sprintf("%s && !(%s in %s)", given(sglang.StorageBackend), value(sglang.StorageBackend), literal(sglang.OurBackends)),
			"(" + text(sglang.OtherBackendGiven(embed(value(sglang.StorageBackend)))) + ")",
		})
	p.perContainer("refusedFlag", firstMatch(refused, "''"))
	p.perContainer("addedFlags", fmt.Sprintf("(%s || %s ? [] : [%s]) + (%s ? [] : %s) + (%s ? [] : [%s, %s])",
		elem("decodes"), given(sglang.Hierarchical), literal(sglang.Hierarchical.Name),
		given(sglang.StorageBackend), literal([]string{sglang.StorageBackend.Name, sglang.DynamicBackend}),
		given(sglang.ExtraConfig), literal(sglang.ExtraConfig.Name), text(sglang.NewExtraConfig(p.settings()))))
}

// decidePageSize declares whether each container gets a page size, and the note about it, as sglang.AddsPageSize and
// inject.Inject decide.
func (p *builder) decidePageSize() {
	var rules []choice
	for _, r := range sglang.PageRules {
		when := given(r.Flag)
		if r.Value != nil {
			when += " && " + matches(value(r.Flag), r.Value)
		}
		if r.IfTrees {
			when += " && " + value(sglang.EagleTopK) + " != '1'"
		}
		rules = append(rules, choice{when, "[" + literal(r.Why) + "]"})
	}
	for _, f := range sglang.PageMultiples {
		rules = append(rules, choice{
			fmt.Sprintf("%s && int(%s) %% %d != 0", matches(value(f), sglang.Positive), value(f), sglang.PageTokens),
			"[" + text(sglang.NotMultiple(f, embed(value(f)))) + "]",
		})
	}
	// pageReasons is empty where a page size may be added, and has the reason otherwise.
	p.perContainer("pageReasons", firstMatch(rules, "[]"))
	p.perContainer("pageFlags", fmt.Sprintf("%s || size(%s) > 0 ? [] : %s", given(sglang.PageSize), elem("pageReasons"),
		literal([]string{sglang.PageSize.Name, strconv.Itoa(sglang.PageTokens)})))
	reason := elem("pageReasons") + "[0]"
	p.perContainer("pageNote", firstMatch([]choice{
		{
			fmt.Sprintf("!%s && (variables.takesFlags || %s.exists(w, w.contains(%s)))", elem("byFlags"), elem("words"), literal(sglang.PageSize.Name)),
			"''",
		},
		{"!" + elem("byFlags"), literal(sglang.NotePageSizeInScript())},
		{given(sglang.PageSize), fmt.Sprintf("(%s == '1' ? %s : '')", value(sglang.PageSize), literal(sglang.NotePageOfToken()))},
		{fmt.Sprintf("size(%s) == 0 || %s == ''", elem("pageReasons"), reason), "''"},
	}, "("+text(sglang.NoteNoPageSize(embed(reason)))+")"))
}

// advice is a list of sglang.AdviceFor's texts for a container, "" for each that does not apply.
func advice() string {
	var texts []string
	for _, a := range sglang.Advices {
		texts = append(texts, fmt.Sprintf("%s && %s ? %s : ''", given(a.Flag), matches(value(a.Flag), a.Value), literal(a.Text())))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// settings are the settings for the socket of the pod's group.
func (p *builder) settings() []engines.Setting {
	return sglang.SocketSettings(embed("variables.socket"))
}
