// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// drift names the first field of want that have does not hold with the same value, or "" when there is
// none. What have holds beyond want is not looked at: it comes from defaulting or belongs to somebody else.
// This is what server-side apply would change, found without asking the API server.
func drift(want, have map[string]any) string { return driftMap("", want, have) }

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

func driftMap(path string, want, have map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		at := key
		if path != "" {
			at = path + "." + key
		}
		value, there := have[key]
		if !there {
			return at
		}
		if difference := driftValue(at, key, want[key], value); difference != "" {
			return difference
		}
	}
	return ""
}

func driftValue(path, field string, want, have any) string {
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
			return ""
		}
	}
	return path
}

func driftKeyed(path, key string, want, have []any) string {
	for _, element := range want {
		wanted, ok := element.(map[string]any)
		if !ok {
			return path
		}
		at := fmt.Sprintf("%s[%v]", path, wanted[key])
		i := slices.IndexFunc(have, func(candidate any) bool {
			fields, ok := candidate.(map[string]any)
			return ok && fields[key] == wanted[key]
		})
		if i < 0 {
			return at
		}
		found, ok := have[i].(map[string]any)
		if !ok {
			return at
		}
		if difference := driftMap(at, wanted, found); difference != "" {
			return difference
		}
	}
	return ""
}

func driftAtomic(path string, want, have []any) string {
	if len(want) != len(have) {
		return path
	}
	for i := range want {
		if driftValue(path, "", want[i], have[i]) != "" {
			return path
		}
	}
	return ""
}
