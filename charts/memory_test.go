// SPDX-License-Identifier: Apache-2.0

//go:build render

package charts

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// goMemoryLimit returns the variable of the operator's container; has is false where there is none.
func goMemoryLimit(container map[string]any) (bytes string, has bool) {
	for _, variable := range container["env"].([]any) {
		if one := variable.(map[string]any); one["name"] == "GOMEMLIMIT" {
			return one["value"].(string), true
		}
	}
	return "", false
}

// wantNineTenths compares the variable with the limit that the API server would read.
func wantNineTenths(t *testing.T, container map[string]any) {
	t.Helper()
	limit, found, err := unstructured.NestedFieldNoCopy(container, "resources", "limits", "memory")
	if !found || err != nil {
		t.Fatalf("the operator has no memory limit (error %v)", err)
	}
	var text string
	switch limit := limit.(type) {
	case string:
		text = limit
	case int64:
		text = strconv.FormatInt(limit, 10)
	case float64:
		text = strconv.FormatFloat(limit, 'g', -1, 64)
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		t.Fatalf("limit %v: %v", limit, err)
	}
	want := strconv.FormatInt(quantity.Value()*9/10, 10)
	if got, _ := goMemoryLimit(container); got != want {
		t.Errorf("with limit %v GOMEMLIMIT is %q, want %s", limit, got, want)
	}
}

// TestGoMemoryLimit: the operator's garbage collector knows nine tenths of its limit, whatever the limit is written as.
func TestGoMemoryLimit(t *testing.T) {
	for _, limit := range []string{"256Mi", "1Gi", "500M", "0.5Gi", "1.5G", "300000Ki", "262144k", "268435456", "3e8", "2Ti"} {
		t.Run(limit, func(t *testing.T) {
			container, _ := operatorContainer(t, helmTemplate(t, "resources.limits.memory="+limit))
			wantNineTenths(t, container)
		})
	}
	for _, none := range []string{"resources.limits.memory=null", "resources.limits=null", "resources=null"} {
		t.Run(none, func(t *testing.T) {
			container, _ := operatorContainer(t, helmTemplate(t, none))
			if got, has := goMemoryLimit(container); has {
				t.Errorf("GOMEMLIMIT is %q", got)
			}
		})
	}
	t.Run("kustomize", func(t *testing.T) {
		container, _ := operatorContainer(t, kustomizeBuild(t, "../config/default"))
		wantNineTenths(t, container)
	})
}
