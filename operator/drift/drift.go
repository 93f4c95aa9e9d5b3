// SPDX-License-Identifier: Apache-2.0

// Package drift compares desired objects with stored ones, and describes the difference for events. It is pure.
package drift

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Difference is a field whose stored value is not the desired one.
type Difference struct {
	Path string // "" when there is none
	// Want and Have are the desired and the stored value; nil when there is no such field.
	Want, Have any
}

// Find finds the first field of want that have lacks or holds with another value. Fields that only have holds do not
// count: defaulting or somebody else set them. The result is what server-side apply would change, without a request to
// the API server.
func Find(want, have map[string]any) Difference { return driftMap("", want, have) }

// listKeys are the fields by which server-side apply identifies the elements of a list. A list that is not named here
// is compared as a whole, in order.
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

// keyDefaults are the values that the API server gives to keys that are left out.
var keyDefaults = map[string]any{"protocol": string(corev1.ProtocolTCP)}

// sameElement says whether server-side apply treats two elements of a list as the same.
func sameElement(keys []string, a, b map[string]any) bool {
	value := func(element map[string]any, key string) any {
		if value, written := element[key]; written {
			return value
		}
		return keyDefaults[key]
	}
	return !slices.ContainsFunc(keys, func(key string) bool { return value(a, key) != value(b, key) })
}

// elementName names an element by its keys, for messages.
func elementName(keys []string, element map[string]any) string {
	var parts []string
	for _, key := range keys {
		if value, written := element[key]; written {
			parts = append(parts, fmt.Sprint(value))
		}
	}
	return strings.Join(parts, "/")
}

func driftMap(path string, want, have map[string]any) Difference {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		at := key
		if path != "" {
			at = path + "." + key
		}
		value, there := have[key]
		if !there {
			return Difference{at, want[key], nil}
		}
		if found := driftValue(at, key, want[key], value); found.Path != "" {
			return found
		}
	}
	return Difference{}
}

func driftValue(path, field string, want, have any) Difference {
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
			return Difference{}
		}
	}
	return Difference{path, want, have}
}

func driftKeyed(path string, keys []string, want, have []any) Difference {
	for _, element := range want {
		wanted, ok := element.(map[string]any)
		if !ok {
			return Difference{path, want, have}
		}
		at := fmt.Sprintf("%s[%s]", path, elementName(keys, wanted))
		found := findElement(keys, wanted, have)
		if found == nil {
			return Difference{at, wanted, nil}
		}
		if found := driftMap(at, wanted, found); found.Path != "" {
			return found
		}
	}
	return Difference{}
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

func driftAtomic(path string, want, have []any) Difference {
	if len(want) != len(have) {
		return Difference{path, want, have}
	}
	for i := range want {
		if driftValue(path, "", want[i], have[i]).Path != "" {
			return Difference{path, want, have}
		}
	}
	return Difference{}
}

// Overlap is the part of have that want has fields for. An object that holds exactly that part does not drift from it.
func Overlap(want, have map[string]any) map[string]any {
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
				both[field] = Overlap(wanted, value)
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
				both = append(both, Overlap(wanted, found))
			}
		}
	}
	return both
}
