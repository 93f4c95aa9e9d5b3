// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"encoding/json"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

func TestFind(t *testing.T) {
	tests := []struct {
		name, want, have, at string
	}{
		{"equal", `{"a":{"b":1}}`, `{"a":{"b":1}}`, ""},
		{"defaulted by the API server", `{"a":{"b":1}}`, `{"a":{"b":1,"c":2},"d":3}`, ""},
		{"changed", `{"a":{"b":1}}`, `{"a":{"b":2}}`, "a.b"},
		{"removed", `{"a":{"b":1}}`, `{"a":{}}`, "a.b"},
		{"of another type", `{"a":{"b":1}}`, `{"a":"b"}`, "a"},
		{"no longer a list", `{"args":["x"]}`, `{"args":{"x":1}}`, "args"},
		{"atomic list: order", `{"args":["x","y"]}`, `{"args":["y","x"]}`, "args"},
		{"atomic list: added", `{"args":["x"]}`, `{"args":["x","y"]}`, "args"},
		{"atomic list: defaulted element", `{"tolerations":[{"key":"k"}]}`,
			`{"tolerations":[{"key":"k","effect":"e"}]}`, ""},
		{"atomic list: changed element", `{"tolerations":[{"key":"k"}]}`, `{"tolerations":[{"key":"l"}]}`, "tolerations"},
		{"keyed list: order", `{"env":[{"name":"a","value":"1"},{"name":"b","value":"2"}]}`,
			`{"env":[{"name":"b","value":"2"},{"name":"a","value":"1"}]}`, ""},
		{"keyed list: somebody else's element", `{"volumes":[{"name":"a"}]}`, `{"volumes":[{"name":"x"},{"name":"a"}]}`, ""},
		{"keyed list: changed element", `{"containers":[{"name":"a","image":"1"}]}`,
			`{"containers":[{"name":"a","image":"2"}]}`, "containers[a].image"},
		{"keyed list: removed element", `{"containers":[{"name":"a"}]}`, `{"containers":[{"name":"b"}]}`, "containers[a]"},
		{"keyed list: keyed by mount path", `{"volumeMounts":[{"mountPath":"/a","name":"v"}]}`,
			`{"volumeMounts":[{"mountPath":"/a","name":"w"}]}`, "volumeMounts[/a].name"},
		{"ports without names", `{"ports":[{"containerPort":1},{"containerPort":2}]}`,
			`{"ports":[{"containerPort":1,"protocol":"TCP"},{"containerPort":2,"protocol":"TCP"}]}`, ""},
		{"ports: order", `{"ports":[{"containerPort":1,"protocol":"UDP"},{"containerPort":1}]}`,
			`{"ports":[{"containerPort":1,"protocol":"TCP"},{"containerPort":1,"protocol":"UDP"}]}`, ""},
		{"ports: another protocol", `{"ports":[{"containerPort":1}]}`, `{"ports":[{"containerPort":1,"protocol":"UDP"}]}`, "ports[1]"},
		{"ports: another name", `{"ports":[{"containerPort":1,"name":"a"}]}`,
			`{"ports":[{"containerPort":1,"name":"b","protocol":"TCP"}]}`, "ports[1].name"},
		{"ports of a Service", `{"ports":[{"port":1,"targetPort":2},{"port":1,"protocol":"UDP"}]}`,
			`{"ports":[{"port":9},{"port":1,"protocol":"UDP"},{"port":1,"protocol":"TCP","targetPort":3}]}`, "ports[1].targetPort"},
		{"topology spread: somebody else's", `{"topologySpreadConstraints":[{"topologyKey":"a","whenUnsatisfiable":"x","maxSkew":1}]}`,
			`{"topologySpreadConstraints":[{"topologyKey":"a","whenUnsatisfiable":"y","maxSkew":2},` +
				`{"topologyKey":"a","whenUnsatisfiable":"x","maxSkew":1}]}`, ""},
		{"the first difference in order of names", `{"b":1,"a":1}`, `{"b":2,"a":2}`, "a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if found := Find(parse(t, test.want), parse(t, test.have)); found.Path != test.at {
				t.Errorf("got %q, want %q", found.Path, test.at)
			}
		})
	}
}

// TestListKeysMatchTheSchema compares listKeys with the schema of the API server. A missing list would be compared as a whole.
// An element that somebody else adds to it would then cause endless writes.
func TestListKeysMatchTheSchema(t *testing.T) {
	found := map[string][]string{}
	converter := applyconfigurations.NewTypeConverter(clientgoscheme.Scheme)
	for _, object := range []runtime.Object{
		&appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}},
		&corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}},
		&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}},
		&admissionv1.MutatingAdmissionPolicy{TypeMeta: metav1.TypeMeta{
			APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicy"}},
	} {
		typed, err := converter.ObjectToTyped(object)
		if err != nil {
			t.Fatal(err)
		}
		collectKeys(typed.Schema(), typed.TypeRef(), "", map[string]bool{}, found)
	}
	delete(found, "conditions")          // it occurs only in status
	delete(found, "ephemeralContainers") // it occurs only in running pods
	for field, keys := range found {
		ours := listKeys[field]
		for _, key := range keys {
			if !slices.Contains(ours, key) {
				t.Errorf("elements of %s are told apart by %v, but the operator goes by %v", field, keys, ours)
			}
		}
	}
	for field := range listKeys { // this also checks that the schema was read
		if found[field] == nil {
			t.Errorf("the API server tells no elements of %s apart, but the operator does", field)
		}
	}
}

// collectKeys collects the keys of all lists in a type, by the names of their fields.
func collectKeys(all *schema.Schema, ref schema.TypeRef, field string, seen map[string]bool, found map[string][]string) {
	if ref.NamedType != nil {
		if seen[field+" "+*ref.NamedType] {
			return
		}
		seen[field+" "+*ref.NamedType] = true
	}
	atom, known := all.Resolve(ref)
	switch {
	case !known:
	case atom.List != nil:
		if atom.List.ElementRelationship == schema.Associative && len(atom.Keys) > 0 {
			found[field] = append(found[field], atom.Keys...)
		}
		if atom.List.ElementRelationship == schema.Associative {
			collectKeys(all, atom.List.ElementType, field+"[]", seen, found)
		}
	case atom.Map != nil:
		for _, inner := range atom.Fields {
			collectKeys(all, inner.Type, inner.Name, seen, found)
		}
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
