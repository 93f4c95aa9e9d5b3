// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// difference is a field that is not as it is wanted.
type difference struct {
	path string // "" when there is none
	// want and have are its values; nil where there is no such field.
	want, have any
}

// drift finds the first field of want that have does not hold with the same value.
// What have holds beyond want is not looked at: it comes from defaulting or belongs to somebody else.
// This is what server-side apply would change, found without asking the API server.
func drift(want, have map[string]any) difference { return driftMap("", want, have) }

// listKeys are the fields by which server-side apply tells the elements of a list apart. A list that
// is not named here is one value: it is compared as a whole, in order.
var listKeys = map[string][]string{
	"claims":                    {"name"},
	"containers":                {"name"},
	"env":                       {"name"},
	"hostAliases":               {"ip"},
	"imagePullSecrets":          {"name"},
	"initContainers":            {"name"},
	"matchConditions":           {"name"},
	"ownerReferences":           {"uid"},
	"ports":                     {"containerPort", "port", "protocol"}, // a container has containerPort, a Service has port
	"resourceClaims":            {"name"},
	"schedulingGates":           {"name"},
	"topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"},
	"volumeDevices":             {"devicePath"},
	"volumeMounts":              {"mountPath"},
	"volumes":                   {"name"},
}

// keyDefaults are the values that the API server gives to keys that are not written.
var keyDefaults = map[string]any{"protocol": string(corev1.ProtocolTCP)}

// sameElement says whether server-side apply takes two elements of a list for the same.
func sameElement(keys []string, a, b map[string]any) bool {
	value := func(element map[string]any, key string) any {
		if value, written := element[key]; written {
			return value
		}
		return keyDefaults[key]
	}
	return !slices.ContainsFunc(keys, func(key string) bool { return value(a, key) != value(b, key) })
}

// elementName names an element in messages by its keys.
func elementName(keys []string, element map[string]any) string {
	var parts []string
	for _, key := range keys {
		if value, written := element[key]; written {
			parts = append(parts, fmt.Sprint(value))
		}
	}
	return strings.Join(parts, "/")
}

func driftMap(path string, want, have map[string]any) difference {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		at := key
		if path != "" {
			at = path + "." + key
		}
		value, there := have[key]
		if !there {
			return difference{at, want[key], nil}
		}
		if found := driftValue(at, key, want[key], value); found.path != "" {
			return found
		}
	}
	return difference{}
}

func driftValue(path, field string, want, have any) difference {
	switch want := want.(type) {
	case map[string]any:
		if have, ok := have.(map[string]any); ok {
			return driftMap(path, want, have)
		}
	case []any:
		if have, ok := have.([]any); ok {
			if keys, keyed := listKeys[field]; keyed {
				return driftKeyed(path, keys, want, have)
			}
			return driftAtomic(path, want, have)
		}
	default:
		if reflect.DeepEqual(want, have) {
			return difference{}
		}
	}
	return difference{path, want, have}
}

func driftKeyed(path string, keys []string, want, have []any) difference {
	for _, element := range want {
		wanted, ok := element.(map[string]any)
		if !ok {
			return difference{path, want, have}
		}
		at := fmt.Sprintf("%s[%s]", path, elementName(keys, wanted))
		found := findElement(keys, wanted, have)
		if found == nil {
			return difference{at, wanted, nil}
		}
		if found := driftMap(at, wanted, found); found.path != "" {
			return found
		}
	}
	return difference{}
}

// findElement finds the same element in another list; nil when there is none.
func findElement(keys []string, wanted map[string]any, have []any) map[string]any {
	for _, candidate := range have {
		if fields, ok := candidate.(map[string]any); ok && sameElement(keys, wanted, fields) {
			return fields
		}
	}
	return nil
}

func driftAtomic(path string, want, have []any) difference {
	if len(want) != len(have) {
		return difference{path, want, have}
	}
	for i := range want {
		if driftValue(path, "", want[i], have[i]).path != "" {
			return difference{path, want, have}
		}
	}
	return difference{}
}

// overlap is what have holds of the fields of want. Whoever has nothing but that does not drift from it.
func overlap(want, have map[string]any) map[string]any {
	both := map[string]any{}
	for field, wanted := range want {
		value, there := have[field]
		if !there {
			continue
		}
		both[field] = value
		switch wanted := wanted.(type) {
		case map[string]any:
			if value, ok := value.(map[string]any); ok {
				both[field] = overlap(wanted, value)
			}
		case []any:
			value, ok := value.([]any)
			if keys, keyed := listKeys[field]; ok && keyed {
				both[field] = overlapKeyed(keys, wanted, value)
			}
		}
	}
	return both
}

func overlapKeyed(keys []string, want, have []any) []any {
	var both []any
	for _, element := range want {
		if wanted, ok := element.(map[string]any); ok {
			if found := findElement(keys, wanted, have); found != nil {
				both = append(both, overlap(wanted, found))
			}
		}
	}
	return both
}
