// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// foundPod is a pod in a manifest, or the pod of a template in it.
type foundPod struct {
	name string
	pod  *corev1.Pod
}

// podsOf returns the pods in a file of YAML or JSON documents.
func podsOf(text []byte) ([]foundPod, error) {
	var pods []foundPod
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("document %d: %w: write YAML or JSON", number, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		found, err := podsOfObject(object)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
		pods = append(pods, found...)
	}
	if len(pods) == 0 {
		return nil, errors.New("there is no Pod and no object with a pod template: name the file of your SGLang pods")
	}
	return pods, nil
}

func podsOfObject(object *unstructured.Unstructured) ([]foundPod, error) {
	name := strings.ToLower(object.GetKind()) + "/" + cmp.Or(object.GetName(), object.GetGenerateName())
	if object.GetKind() == "Pod" {
		pod, err := toPod(object.Object, name)
		if err != nil {
			return nil, err
		}
		return []foundPod{{name, pod}}, nil
	}
	var pods []foundPod
	for _, template := range podTemplates(object) {
		where := strings.TrimSpace(name + " " + template.where)
		pod, err := toPod(template.object, where)
		if err != nil {
			return nil, err
		}
		pod.Namespace = cmp.Or(pod.Namespace, object.GetNamespace())
		if pod.Name == "" && pod.GenerateName == "" {
			pod.GenerateName = object.GetName() + "-"
		}
		pods = append(pods, foundPod{where, pod})
	}
	return pods, nil
}

func toPod(object map[string]any, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, pod, true); err != nil {
		return nil, fmt.Errorf("%s: %w: correct the field", name, err)
	}
	return pod, nil
}
