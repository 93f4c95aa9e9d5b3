// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// podTemplate is a pod template in an object, with metadata and spec. where tells the templates of one object apart; it is ""
// where there can be only one.
type podTemplate struct {
	where  string
	object map[string]any
}

// podTemplates returns the pod templates of an object, whatever its kind calls them.
func podTemplates(object *unstructured.Unstructured) []podTemplate {
	switch object.GetKind() {
	case "RoleBasedGroup":
		return ofRoles(object.Object)
	case "InferenceService":
		return ofPredictor(object.Object)
	case "LLMInferenceService":
		return ofWorkloads(object.Object)
	}
	var found []podTemplate
	for _, at := range usualTemplates {
		found = appendTemplate(found, at.where, object.Object, at.path...)
	}
	return found
}

// usualTemplates are the places of templates in most kinds, in CronJobs, and in LeaderWorkerSets.
var usualTemplates = []struct {
	where string
	path  []string
}{
	{"", []string{"spec", "template"}},
	{"", []string{"spec", "jobTemplate", "spec", "template"}},
	{"leaderTemplate", []string{"spec", "leaderWorkerTemplate", "leaderTemplate"}},
	{"workerTemplate", []string{"spec", "leaderWorkerTemplate", "workerTemplate"}},
}

// ofRoles finds the templates of a RoleBasedGroup. Patches of templates are not applied.
func ofRoles(object map[string]any) []podTemplate {
	var found []podTemplate
	for _, list := range []string{"roles", "roleTemplates"} {
		roles, _, _ := unstructured.NestedSlice(object, "spec", list)
		for _, entry := range roles {
			role, ok := entry.(map[string]any)
			if !ok {
				continue
			}
			name, _, _ := unstructured.NestedString(role, "name")
			for _, path := range [][]string{{"template"}, {"standalonePattern", "template"}, {"leaderWorkerPattern", "template"}} {
				found = appendTemplate(found, name, role, path...)
			}
		}
	}
	return found
}

// ofPredictor finds the pod of a KServe InferenceService: fields of a pod's spec, metadata and others stand beside each other.
func ofPredictor(object map[string]any) []podTemplate {
	predictor, _, _ := unstructured.NestedMap(object, "spec", "predictor")
	if predictor["containers"] == nil {
		return nil // a model and its runtime: the pod is KServe's
	}
	spec := map[string]any{}
	for _, field := range []string{"containers", "initContainers", "volumes", "hostNetwork", "dnsPolicy", "imagePullSecrets"} {
		if value, ok := predictor[field]; ok {
			spec[field] = value
		}
	}
	metadata := metadataBeside(predictor)
	labels, _, _ := unstructured.NestedMap(object, "metadata", "labels") // these reach the pod, too
	if own, ok := metadata["labels"].(map[string]any); ok {
		if labels == nil {
			labels = map[string]any{}
		}
		maps.Copy(labels, own)
	}
	if labels != nil {
		metadata["labels"] = labels
	}
	return []podTemplate{{"predictor", map[string]any{"metadata": metadata, "spec": spec}}}
}

// ofWorkloads finds the pods of a KServe LLMInferenceService. Its templates are specs of pods, with labels and annotations beside
// them. What is not written there comes from templates of KServe.
func ofWorkloads(object map[string]any) []podTemplate {
	var found []podTemplate
	for _, path := range [][]string{{"spec"}, {"spec", "prefill"}} {
		workload, _, _ := unstructured.NestedMap(object, path...)
		for _, field := range []string{"template", "worker"} {
			spec, _, _ := unstructured.NestedMap(workload, field)
			if spec["containers"] == nil {
				continue
			}
			where := field
			if len(path) > 1 {
				where = "prefill " + field
			}
			found = append(found, podTemplate{where, map[string]any{"metadata": metadataBeside(workload), "spec": spec}})
		}
	}
	return found
}

func metadataBeside(fields map[string]any) map[string]any {
	metadata := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		if value, ok := fields[field]; ok {
			metadata[field] = value
		}
	}
	return metadata
}

func appendTemplate(found []podTemplate, where string, object map[string]any, path ...string) []podTemplate {
	template, there, err := unstructured.NestedMap(object, path...)
	if err != nil || !there || template["spec"] == nil {
		return found
	}
	return append(found, podTemplate{where, template})
}
