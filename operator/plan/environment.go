// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// variablePrefix begins the variables from which peercached reads its options.
const variablePrefix = "PEERCACHE_"

// variableOf returns the variable of an option.
func variableOf(option string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// optionOf is the inverse of variableOf.
func optionOf(variable string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, variablePrefix), "_", "-"))
}

// checkEnvironment refuses a podTemplate that changes the options of peercached: by a variable of its own, which wins over the
// configuration file, or in the variables of the operator.
func checkEnvironment(own, merged corev1.Container) *Problem {
	find := func(list []corev1.EnvVar, name string) int {
		return slices.IndexFunc(list, func(v corev1.EnvVar) bool { return v.Name == name })
	}
	for _, variable := range merged.Env {
		i := find(own.Env, variable.Name)
		if i >= 0 && equality.Semantic.DeepEqual(variable, own.Env[i]) {
			continue
		}
		if i >= 0 || strings.HasPrefix(variable.Name, variablePrefix) {
			return templateProblem("podTemplate.spec sets the variable %s of container %s, which only the operator sets: %s",
				variable.Name, ContainerName, variableFix(variable))
		}
	}
	for _, variable := range own.Env {
		if find(merged.Env, variable.Name) < 0 {
			return templateProblem("podTemplate.spec removes the variable %s of container %s, which the operator sets: remove that part",
				variable.Name, ContainerName)
		}
	}
	if len(merged.EnvFrom) > 0 { // the plan knows no ConfigMap and no Secret of the user
		return templateProblem("podTemplate.spec sets envFrom of container %s: the operator cannot check variables from envFrom; list them under env",
			ContainerName)
	}
	return nil
}

// variableFix says what to write instead of a variable.
func variableFix(variable corev1.EnvVar) string {
	option := optionOf(variable.Name)
	switch field := fieldOfOption[option]; {
	case slices.Contains(freeOptions, option):
		value := "VALUE"
		if optionValue.MatchString(variable.Value) {
			value = variable.Value
		}
		return fmt.Sprintf("write spec.extraConfig: {%s: %q} instead", option, value)
	case field != "":
		return fmt.Sprintf("write spec.%s instead", field)
	case strings.HasPrefix(variable.Name, variablePrefix) && strings.Contains(option, "token"):
		return "write spec.security.token instead"
	}
	return "remove it"
}
