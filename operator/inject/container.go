// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/inject/sglang"
)

// Delivery is the way in which a container gets the flags.
type Delivery string

// The values of Delivery.
const (
	// DeliveryFlags appends the flags to the arguments.
	DeliveryFlags Delivery = "flags"
	// DeliveryEnvironment changes no argument, and offers the flags in PEERCACHE_SGLANG_ARGS.
	DeliveryEnvironment Delivery = "environment"
)

// findContainers returns the indices of the containers to inject, or a reason. It ignores init containers: one that runs
// SGLang does so for another purpose, such as downloading a model.
func findContainers(pod *corev1.Pod) (indices []int, reason string) {
	if named, ok := pod.Annotations[names.AnnotationContainer]; ok {
		return namedContainers(pod, named)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name == names.DefaultContainer || mentionsLaunch(c) {
			indices = append(indices, i)
		}
	}
	if len(indices) == 0 {
		return nil, reasons.NoSGLang(strings.Join(containerNames(pod.Spec.Containers), ", "))
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

func mentionsLaunch(c *corev1.Container) bool {
	words := sglang.ContainerArgv(c).Words
	return sglang.LaunchWord(words) >= 0 || slices.ContainsFunc(words, sglang.LaunchText.MatchString)
}

// deliveryFor returns the delivery for a container, and its arguments as SGLang sees them.
func deliveryFor(c *corev1.Container, annotated bool) (Delivery, sglang.Argv) {
	args := sglang.ContainerArgv(c)
	launch := sglang.LaunchWord(args.Words)
	before := args.Words
	if launch >= 0 {
		before = args.Words[:launch]
		args.Start = launch + 1
	}
	switch {
	case slices.ContainsFunc(before, sglang.Shell.MatchString):
		return DeliveryEnvironment, args
	case launch >= 0:
		return DeliveryFlags, args
	case slices.ContainsFunc(args.Words, sglang.LaunchText.MatchString):
		return DeliveryEnvironment, args
	// The user has named the container, so its image's entry point counts as SGLang.
	case annotated:
		return DeliveryFlags, args
	// The container is known only by its name. Its arguments must look like SGLang's, and must exist: new args would
	// replace the default arguments of the image.
	case len(c.Command) == 0 && len(c.Args) > 0 && strings.HasPrefix(c.Args[0], "-") && args.Has(sglang.ModelPath):
		return DeliveryFlags, args
	default:
		return DeliveryEnvironment, args
	}
}

func containerNames(containers []corev1.Container) []string {
	list := make([]string, len(containers))
	for i := range containers {
		list[i] = containers[i].Name
	}
	return list
}
