// SPDX-License-Identifier: Apache-2.0

package injecttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A patch has the form of what it changes, and only what changes, as a JSON merge patch (RFC 7396): null removes a field.
// A merge patch writes a changed list whole. Here it is changed by element, in this order:
//
//	drop N: null      removes element N of the list before
//	insert N: [...]   inserts elements, the first of which is element N of the list after
//	at NAME: ...      patches the element of that name, or element NAME of the list after
//
// "$NAME" stands for a value that many cases get (partOf). {as: $NAME, but: PATCH} is that value with changes.

// partOf says which value of a whole case each part is: the case, and the path of the value. So a change of what every pod gets
// changes few files. A path that ends with N- is the rest of a list from element N on.
var partOf = map[string][2]string{
	"$pythonpath":         {"args-plain", "spec/containers/0/env/0"},
	"$socket":             {"args-plain", "spec/containers/0/env/1"},
	"$flags":              {"args-plain", "spec/containers/0/args/5-"},
	"$mounts":             {"args-plain", "spec/containers/0/volumeMounts"},
	"$client-mount":       {"args-plain", "spec/containers/0/volumeMounts/0"},
	"$socket-mount":       {"args-plain", "spec/containers/0/volumeMounts/1"},
	"$client":             {"args-plain", "spec/initContainers/0"},
	"$volumes":            {"args-plain", "spec/volumes"},
	"$client-volume":      {"args-plain", "spec/volumes/0"},
	"$socket-volume":      {"args-plain", "spec/volumes/1"},
	"$sidecar":            {"sidecar", "spec/initContainers/1"},
	"$sidecar-mounts":     {"sidecar", "spec/containers/0/volumeMounts"},
	"$sidecar-volumes":    {"sidecar", "spec/volumes"},
	"$token":              {"sidecar", "spec/volumes/1"},
	"$tenants":            {"sidecar", "spec/volumes/2"},
	"$sidecar-socket":     {"sidecar", "spec/volumes/3"},
	"$sidecar-rdma":       {"sidecar-rdma", "spec/initContainers/1"},
	"$embedded-mounts":    {"embedded", "spec/containers/0/volumeMounts"},
	"$embedded-namespace": {"embedded", "spec/containers/0/env/1"},
	"$embedded-name":      {"embedded", "spec/containers/0/env/2"},
	"$embedded-id":        {"embedded", "spec/containers/0/env/3"},
	"$embedded-volumes":   {"embedded", "spec/volumes"},
	"$csi-volume":         {"csi", "spec/volumes/1"},
	"$image-volume":       {"image-volume", "spec/volumes/0"},
}

var partName = regexp.MustCompile(`^\$[a-z-]+$`)

type parts map[string]any

var known struct {
	sync.Mutex
	of map[string]parts // by the folder
}

func readParts(folder string) (parts, error) {
	known.Lock()
	defer known.Unlock()
	if p, ok := known.of[folder]; ok {
		return p, nil
	}
	p := parts{}
	for name, from := range partOf {
		c, err := readCase(filepath.Join(folder, from[0]+Suffix))
		if err != nil {
			return nil, err
		}
		var value any = c.Injected
		for token := range strings.SplitSeq(from[1], "/") {
			switch v := value.(type) {
			case map[string]any:
				value = v[token]
			case []any:
				n, err := strconv.Atoi(strings.TrimSuffix(token, "-"))
				if err != nil || n >= len(v) {
					return nil, fmt.Errorf("%s of %s has no element %s", name, from, token)
				}
				if value = v[n]; strings.HasSuffix(token, "-") {
					value = slices.Clone(v[n:])
				}
			}
		}
		if value == nil {
			return nil, fmt.Errorf("%s: the whole case %s has no %s", name, from[0], from[1])
		}
		p[name] = value
	}
	if known.of == nil {
		known.of = map[string]parts{}
	}
	known.of[folder] = p
	return p, nil
}

// expand returns a value without references to parts.
func (p parts) expand(value any) (any, error) {
	switch v := value.(type) {
	case string:
		if part, ok := p[v]; ok {
			return clone(part), nil
		}
		if partName.MatchString(v) {
			return nil, fmt.Errorf("there is no part %s", v)
		}
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			whole, err := p.expand(element)
			if err != nil {
				return nil, err
			}
			list[i] = whole
		}
		return list, nil
	case map[string]any:
		if name, ok := v["as"].(string); ok && strings.HasPrefix(name, "$") {
			part, ok := p[name]
			if !ok {
				return nil, fmt.Errorf("there is no part %s", name)
			}
			return p.apply(clone(part), v["but"])
		}
		m := map[string]any{}
		for key, element := range v {
			whole, err := p.expand(element)
			if err != nil {
				return nil, err
			}
			m[key] = whole
		}
		return m, nil
	}
	return value, nil
}

// apply changes a value, and returns it.
func (p parts) apply(value, patch any) (any, error) {
	changes, ok := patch.(map[string]any)
	if !ok {
		return p.expand(patch)
	}
	switch v := value.(type) {
	case map[string]any:
		for key, change := range changes {
			before, had := v[key]
			if change == nil {
				if !had {
					return nil, fmt.Errorf("there is no %s to remove", key)
				}
				delete(v, key)
				continue
			}
			after, err := p.apply(before, change)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			v[key] = after
		}
		return v, nil
	case []any:
		return p.applyToList(v, changes)
	default:
		return p.expand(patch)
	}
}

func (p parts) applyToList(list []any, changes map[string]any) (any, error) {
	type change struct {
		order, n int
		name     string
		value    any
	}
	todo := make([]change, 0, len(changes))
	for key, value := range changes {
		verb, name, _ := strings.Cut(key, " ")
		order := slices.Index([]string{"drop", "insert", "at"}, verb)
		n, err := strconv.Atoi(name)
		if order < 0 || err != nil && order < 2 {
			return nil, fmt.Errorf("%q changes no list: it is none of drop N, insert N, at NAME", key)
		}
		todo = append(todo, change{order, n, name, value})
	}
	slices.SortFunc(todo, func(a, b change) int {
		if a.order == 0 && b.order == 0 {
			return cmp.Compare(b.n, a.n) // numbers are those of the list before, so the last goes first
		}
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.n, b.n))
	})
	for _, c := range todo {
		if c.order == 2 {
			c.n = slices.IndexFunc(keysOf(list), func(key string) bool { return key == c.name })
		}
		if limit := len(list); c.n < 0 || c.n > limit || c.n == limit && c.order != 1 {
			return nil, fmt.Errorf("there is no element %s among %d", c.name, limit)
		}
		switch c.order {
		case 0:
			list = slices.Delete(list, c.n, c.n+1)
		case 1:
			value, err := p.expand(c.value)
			if err != nil {
				return nil, err
			}
			elements, ok := value.([]any)
			if !ok {
				return nil, fmt.Errorf("insert %d has no list", c.n)
			}
			list = slices.Insert(list, c.n, elements...)
		case 2:
			element, err := p.apply(list[c.n], c.value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			list[c.n] = element
		}
	}
	return list, nil
}

// diff returns the patch that changes one value into another.
func (p parts) diff(before, after any) any {
	if reflect.TypeOf(before) != reflect.TypeOf(after) {
		return p.shorten(after)
	}
	switch b := before.(type) {
	case map[string]any:
		a := after.(map[string]any)
		patch := map[string]any{}
		for key := range b {
			if _, ok := a[key]; !ok {
				patch[key] = nil
			}
		}
		for key, value := range a {
			old, had := b[key]
			switch {
			case !had:
				patch[key] = p.shorten(value)
			case !reflect.DeepEqual(old, value):
				patch[key] = p.diff(old, value)
			}
		}
		return patch
	case []any:
		return p.diffLists(b, after.([]any))
	default:
		return p.shorten(after)
	}
}

// diffLists patches elements of the same name, and drops and inserts the others. It keeps as many elements as it can.
func (p parts) diffLists(before, after []any) map[string]any {
	kept := make([][]int, len(before)+1) // kept[i][j] is how many elements of before[i:] and after[j:] can stay
	for i := range kept {
		kept[i] = make([]int, len(after)+1)
	}
	for i, old := range slices.Backward(before) {
		for j, changed := range slices.Backward(after) {
			kept[i][j] = max(kept[i+1][j], kept[i][j+1])
			if nameOf(old) == nameOf(changed) {
				kept[i][j] = max(kept[i][j], kept[i+1][j+1]+1)
			}
		}
	}
	patch, keys := map[string]any{}, keysOf(after)
	i, j, first := 0, 0, -1 // first is where the elements to insert begin
	var fresh []any
	insert := func() {
		if first >= 0 {
			patch[fmt.Sprint("insert ", first)] = p.shorten(fresh)
		}
		fresh, first = nil, -1
	}
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && nameOf(before[i]) == nameOf(after[j]) && kept[i][j] == kept[i+1][j+1]+1:
			insert()
			if !reflect.DeepEqual(before[i], after[j]) {
				patch["at "+keys[j]] = p.diff(before[i], after[j])
			}
			i, j = i+1, j+1
		case i < len(before) && (j == len(after) || kept[i+1][j] >= kept[i][j+1]):
			patch[fmt.Sprint("drop ", i)] = nil
			i++
		default:
			if first < 0 {
				first = j
			}
			fresh = append(fresh, after[j])
			j++
		}
	}
	insert()
	return patch
}

// keysOf returns what a patch calls each element of a list: its name, or its number where that does not name it alone.
func keysOf(list []any) []string {
	keys, count := make([]string, len(list)), map[string]int{}
	for i, element := range list {
		if m, ok := element.(map[string]any); ok {
			keys[i], _ = m["name"].(string)
		}
		count[keys[i]]++
	}
	for i, key := range keys {
		if _, err := strconv.Atoi(key); err == nil || key == "" || count[key] > 1 {
			keys[i] = strconv.Itoa(i)
		}
	}
	return keys
}

// nameOf returns what tells an element from others in its list.
func nameOf(element any) string {
	if m, ok := element.(map[string]any); ok {
		for _, key := range []string{"mountPath", "name"} {
			if name, ok := m[key].(string); ok {
				return key + " " + name
			}
		}
	}
	return encoded(element)
}

// shorten writes parts by their names.
func (p parts) shorten(value any) any {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if reflect.DeepEqual(p[name], value) {
			return name
		}
	}
	switch v := value.(type) {
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = p.shorten(element)
		}
		return list
	case map[string]any:
		m := map[string]any{}
		for key, element := range v {
			m[key] = p.shorten(element)
		}
		var best any = m
		for _, name := range slices.Sorted(maps.Keys(p)) {
			if part, ok := p[name].(map[string]any); ok && nameOf(part) == nameOf(v) {
				if as := map[string]any{"as": name, "but": p.diff(part, v)}; 3*len(encoded(as)) < 2*len(encoded(best)) {
					best = as
				}
			}
		}
		return best
	}
	return value
}

func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // all values are of JSON
	}
	return string(text)
}

func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, element := range v {
			m[key] = clone(element)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = clone(element)
		}
		return list
	}
	return value
}
