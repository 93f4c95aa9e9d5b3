// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/names"
)

// Engine is a connected pod on a machine, as far as one can see from outside whether its engine should have attached.
type Engine struct {
	Pod     string // namespace/name
	Machine string
	// Ranks is the number of processes that attach; at least 1.
	Ranks int
	State EngineState
	// Since is when the pod came into its state; zero where that is not known.
	Since time.Time
}

// EngineState is how far the start of an engine's pod has come.
type EngineState string

// The values of EngineState. A pod is blocked while a volume is not mounted or its sandbox does not start.
const (
	EngineBlocked  EngineState = "blocked"
	EngineStarting EngineState = "starting"
	EngineReady    EngineState = "ready"
)

// Ranks is the number of processes of a connected pod that attach; at least 1.
func Ranks(pod *corev1.Pod) int {
	given, ranks := ","+pod.Annotations[names.AnnotationContainers]+",", 0
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		switch {
		case strings.Contains(given, ","+c.Name+"="+string(engines.DeliveryFlags)+","):
			engine := engineOf(pod, c)
			if engine == nil {
				ranks++ // a later release may have connected it
				continue
			}
			_, args := deliveryFor(engine, c, true)
			ranks += engine.Ranks(args)
		case strings.Contains(given, ","+c.Name+"="):
			ranks++ // its script may say more
		}
	}
	return max(1, ranks)
}

// EngineOf returns the engine of a pod on a machine.
func EngineOf(pod *corev1.Pod, ranks int) Engine {
	engine := Engine{Pod: pod.Namespace + "/" + pod.Name, Machine: pod.Spec.NodeName, Ranks: ranks, State: EngineStarting}
	since := map[corev1.PodConditionType]time.Time{}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			engine.State, engine.Since = EngineReady, c.LastTransitionTime.Time
			return engine
		case c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse:
			engine.State = EngineBlocked
		}
		since[c.Type] = c.LastTransitionTime.Time
	}
	engine.Since = since[corev1.PodScheduled]
	return engine
}
