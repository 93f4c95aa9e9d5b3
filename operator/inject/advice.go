// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
)

// Noted returns what injection has written on a pod: why it, or a container of it, was left alone, and what its user should do.
func Noted(pod *corev1.Pod) (texts []string) {
	for _, key := range []string{names.AnnotationSkipReason, names.AnnotationNote} {
		if text := pod.Annotations[key]; text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// Advice returns what to decide about a connected pod where the defaults of its engine depend on the machine. It is no note,
// because nearly every pod has it.
func Advice(pod *corev1.Pod) (texts []string) {
	given := "," + pod.Annotations[names.AnnotationContainers] + ","
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		engine := engineOf(pod, c)
		if engine == nil || !strings.Contains(given, ","+c.Name+"="+string(engines.DeliveryFlags)+",") {
			continue
		}
		if advice := engine.Advice(c); advice != "" {
			texts = append(texts, reasons.OfContainer(c.Name, advice))
		}
	}
	return texts
}
