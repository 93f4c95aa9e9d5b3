// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"github.com/peercache/peercache/api/v1alpha1"
)

// mergeTemplate merges the user's podTemplate into the operator's template. It refuses to change the labels and annotations by
// which the operator finds pods, to remove the container, and to change the options of peercached.
func mergeTemplate(template corev1.PodTemplateSpec, user *v1alpha1.PodTemplate) (corev1.PodTemplateSpec, *Problem) {
	if user == nil {
		return template, nil
	}
	for _, added := range []struct {
		field          string
		operator, user map[string]string
	}{
		{"labels", template.Labels, user.Metadata.Labels},
		{"annotations", template.Annotations, user.Metadata.Annotations},
	} {
		for _, key := range slices.Sorted(maps.Keys(added.user)) {
			if _, taken := added.operator[key]; taken {
				return template, templateProblem("podTemplate.metadata.%s sets %s, which the operator sets itself: remove it",
					added.field, key)
			}
		}
		maps.Copy(added.operator, added.user)
	}
	if user.Spec == nil || len(user.Spec.Raw) == 0 {
		return template, nil
	}
	pod, problem := mergePod(template.Spec, user.Spec.Raw)
	if problem != nil {
		return template, problem
	}
	template.Spec = pod
	return template, nil
}

func mergePod(pod corev1.PodSpec, patch []byte) (corev1.PodSpec, *Problem) {
	original, err := json.Marshal(pod)
	if err != nil {
		panic(err) // encoding a built pod cannot fail
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, corev1.PodSpec{})
	if err != nil {
		return pod, templateProblem("podTemplate.spec cannot be merged, correct it: %v", err)
	}
	var result corev1.PodSpec
	unknown, err := kjson.UnmarshalStrict(merged, &result)
	if err != nil {
		return pod, templateProblem("podTemplate.spec does not give a pod's spec, correct it: %v", err)
	}
	if len(unknown) > 0 {
		return pod, templateProblem("podTemplate.spec has a field that pods do not have, correct it: %v", unknown[0])
	}
	isNode := func(c corev1.Container) bool { return c.Name == ContainerName }
	i := slices.IndexFunc(result.Containers, isNode)
	if i < 0 {
		return pod, templateProblem("podTemplate.spec removes the container %s: remove that part", ContainerName)
	}
	own, node := pod.Containers[slices.IndexFunc(pod.Containers, isNode)], result.Containers[i]
	if problem := checkCommand(own, node); problem != nil {
		return pod, problem
	}
	if problem := checkEnvironment(own, node); problem != nil {
		return pod, problem
	}
	return result, nil
}

// checkCommand refuses a podTemplate that runs another program, or gives peercached options on its command line, which win over
// the environment and the configuration file.
func checkCommand(own, merged corev1.Container) *Problem {
	for _, line := range []struct {
		field       string
		own, merged []string
	}{{"command", own.Command, merged.Command}, {"args", own.Args, merged.Args}} {
		if !slices.Equal(line.own, line.merged) {
			return templateProblem("podTemplate.spec sets %s of container %s, which only the operator sets: remove it, and write "+
				"options in spec.extraConfig or in the field of each", line.field, ContainerName)
		}
	}
	return nil
}

// mergeSidecar gives a sidecar the environment of the node's container in podTemplate. The rest of podTemplate applies to the
// operator's own pods: the pod of a sidecar belongs to the user, and its resources are in spec.injection.
func mergeSidecar(sidecar *corev1.Container, user *v1alpha1.PodTemplate) *Problem {
	if user == nil || user.Spec == nil || len(user.Spec.Raw) == 0 {
		return nil
	}
	pod, problem := mergePod(corev1.PodSpec{Containers: []corev1.Container{*sidecar}}, user.Spec.Raw)
	if problem != nil {
		return problem
	}
	for _, container := range pod.Containers {
		if container.Name == sidecar.Name {
			sidecar.Env = container.Env
		}
	}
	return nil
}

func templateProblem(format string, args ...any) *Problem {
	return &Problem{Reason: "PodTemplateInvalid", Message: fmt.Sprintf(format, args...)}
}
