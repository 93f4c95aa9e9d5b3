// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/discovery"
	"github.com/peercache/peercache/operator/inplace"
	"github.com/peercache/peercache/operator/slim"
)

// Deadlines are the times at which faults, discovery hosts and conditions change although no object changes.
func Deadlines(pods []corev1.Pod, memory *Memory) []time.Time {
	times := []time.Time{memory.PodRejected.Add(rejectionTTL)}
	for i := range pods {
		pod := &pods[i]
		ready := slim.Condition(pod, corev1.PodReady)
		switch {
		case !pod.DeletionTimestamp.IsZero():
			times = append(times, pod.DeletionTimestamp.Add(deletionTimeout))
		case pod.Status.Phase == corev1.PodPending:
			times = append(times, pod.CreationTimestamp.Add(admissionTimeout))
			if since := unprepared(pod); !since.IsZero() {
				times = append(times, since.Add(unpreparedTimeout))
			}
		case ready != nil && ready.Status != corev1.ConditionTrue:
			times = append(times, ready.LastTransitionTime.Add(notReadyTimeout))
			if discovery.IsHost(pod) {
				times = append(times, ready.LastTransitionTime.Add(discovery.LostAfter))
			}
		}
		if since := inplace.Awaited(pod); !since.IsZero() {
			times = append(times, since.Add(restartTimeout))
		}
	}
	return times
}
