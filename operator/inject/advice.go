// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/inject/sglang"
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

// hicacheReserve is what SGLang leaves of host memory before it takes hicacheShare of it for HiCache.
const (
	hicacheReserve = 10 << 30
	hicacheShare   = 0.8
)

// Advice returns what to decide about a connected pod where the defaults of SGLang depend on the machine. It is no note, because
// nearly every pod has it.
func Advice(pod *corev1.Pod) (texts []string) {
	given := "," + pod.Annotations[names.AnnotationContainers] + ","
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if !strings.Contains(given, ","+c.Name+"="+string(DeliveryFlags)+",") || !sglang.UnsizedMemory(sglang.ContainerArgv(c)) {
			continue
		}
		share := "80 % of the free memory of its machine but 10Gi"
		if limit := c.Resources.Limits.Memory(); !limit.IsZero() {
			share = fmt.Sprintf("%.0fGi of its limit of %s", max(0, hicacheShare*(limit.AsApproximateFloat64()-hicacheReserve)/(1<<30)), limit)
		}
		texts = append(texts, reasons.OfContainer(c.Name, fmt.Sprintf("leaves the host memory of HiCache to SGLang: at its start all ranks take up to %s, "+
			"and at most twice what they have on the GPUs. Write --hicache-size (GB for each rank) where the member's pool or others need it", share)))
	}
	return texts
}
