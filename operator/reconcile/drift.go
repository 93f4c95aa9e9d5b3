// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
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
var listKeys = map[string]string{
	"claims":           "name",
	"containers":       "name",
	"env":              "name",
	"imagePullSecrets": "name",
	"initContainers":   "name",
	"ownerReferences":  "uid",
	"ports":            "name",
	"resourceClaims":   "name",
	"volumeMounts":     "mountPath",
	"volumes":          "name",
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
			if key, keyed := listKeys[field]; keyed {
				return driftKeyed(path, key, want, have)
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

func driftKeyed(path, key string, want, have []any) difference {
	for _, element := range want {
		wanted, ok := element.(map[string]any)
		if !ok {
			return difference{path, want, have}
		}
		at := fmt.Sprintf("%s[%v]", path, wanted[key])
		i := slices.IndexFunc(have, func(candidate any) bool {
			fields, ok := candidate.(map[string]any)
			return ok && fields[key] == wanted[key]
		})
		if i < 0 {
			return difference{at, wanted, nil}
		}
		candidate, ok := have[i].(map[string]any)
		if !ok {
			return difference{at, wanted, have[i]}
		}
		if found := driftMap(at, wanted, candidate); found.path != "" {
			return found
		}
	}
	return difference{}
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
