// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/engines/sglang"
	"github.com/peercache/peercache/operator/inject/engines/vllm"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
)

// findContainers returns the indices of the containers to inject, or a reason. It ignores init containers: one that runs
// an engine does so for another purpose, such as downloading a model.
func findContainers(pod *corev1.Pod) (indices []int, reason string) {
	if named, ok := pod.Annotations[names.AnnotationContainer]; ok {
		return namedContainers(pod, named)
	}
	for i := range pod.Spec.Containers {
		if engineOf(pod, &pod.Spec.Containers[i]) != nil {
			indices = append(indices, i)
		}
	}
	if len(indices) == 0 {
		return nil, reasons.NoEngine(strings.Join(containerNames(pod.Spec.Containers), ", "))
	}
	return indices, ""
}

func namedContainers(pod *corev1.Pod, named string) (indices []int, reason string) {
	have := containerNames(pod.Spec.Containers)
	for name := range strings.SplitSeq(named, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(have, name)
		switch {
		case i < 0 && slices.Contains(containerNames(pod.Spec.InitContainers), name):
			return nil, reasons.InitContainerNamed(name, strings.Join(have, ", "))
		case i < 0:
			return nil, reasons.ContainerUnknown(name, strings.Join(have, ", "))
		case !slices.Contains(indices, i):
			indices = append(indices, i)
		}
	}
	slices.Sort(indices)
	return indices, ""
}

// known are the engines that injection connects. Of a container that starts several, the first counts.
var known = []engines.Engine{sglang.Engine{}, vllm.Engine{}}

// engineOf returns the engine of a container, or nil where the container runs none. What its command starts counts before its
// name and its image, and these before the annotations.
func engineOf(pod *corev1.Pod, c *corev1.Container) engines.Engine {
	words := engines.ContainerArgv(c).Words
	for _, e := range known {
		if _, started := e.Launch(words); started {
			return e
		}
	}
	for _, e := range known {
		if e.Claims(c) {
			return e
		}
	}
	if !isNamed(pod, c) {
		return nil
	}
	for _, e := range known {
		if e.About().ID == pod.Annotations[names.AnnotationEngine] {
			return e
		}
	}
	return known[0]
}

// isNamed is true where the user has named the container.
func isNamed(pod *corev1.Pod, c *corev1.Container) bool {
	named, given := pod.Annotations[names.AnnotationContainer]
	if !given {
		return false
	}
	for name := range strings.SplitSeq(named, ",") {
		if strings.TrimSpace(name) == c.Name {
			return true
		}
	}
	return false
}

// engineUnknown returns the reason where an annotation names no engine.
func engineUnknown(pod *corev1.Pod) (reason string) {
	name, given := pod.Annotations[names.AnnotationEngine]
	if ids := EngineIDs(); given && !slices.Contains(ids, name) {
		return reasons.EngineUnknown(name, ids)
	}
	return ""
}

// EngineIDs are the values of the annotation that names the engine.
func EngineIDs() (ids []string) {
	for _, e := range known {
		ids = append(ids, e.About().ID)
	}
	return ids
}

// deliveryFor returns the delivery for a container, and its arguments as its engine sees them.
func deliveryFor(e engines.Engine, c *corev1.Container, annotated bool) (engines.Delivery, engines.Argv) {
	args := engines.ContainerArgv(c)
	launch, started := e.Launch(args.Words)
	before := args.Words
	if launch >= 0 {
		before = args.Words[:launch]
		args.Start = launch + 1
	}
	switch {
	case slices.ContainsFunc(before, engines.Shell.MatchString):
		return engines.DeliveryEnvironment, args
	case launch >= 0:
		return engines.DeliveryFlags, args
	case started:
		return engines.DeliveryEnvironment, args
	// The user has named the container, so its image's entry point counts as the engine.
	case annotated:
		return engines.DeliveryFlags, args
	// The container is known only by its name or its image.
	case len(c.Command) == 0 && e.TakesArguments(args):
		return engines.DeliveryFlags, args
	default:
		return engines.DeliveryEnvironment, args
	}
}

func containerNames(containers []corev1.Container) []string {
	list := make([]string, len(containers))
	for i := range containers {
		list[i] = containers[i].Name
	}
	return list
}
