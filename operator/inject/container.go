// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Delivery is how a container is given the flags.
type Delivery string

// The deliveries.
const (
	// DeliveryFlags appends them to the arguments.
	DeliveryFlags Delivery = "flags"
	// DeliveryEnvironment leaves the arguments alone and offers the flags in PEERCACHE_SGLANG_ARGS.
	DeliveryEnvironment Delivery = "environment"
)

var (
	// launchText recognises a start of SGLang inside a longer text, such as the script of `sh -c`.
	launchText = regexp.MustCompile(`\bsglang(\.launch_server\b|/launch_server\.py\b|\s+serve\b)`)
	// launchScript and launchProgram are SGLang's script and its program as words, by whatever path.
	launchScript  = regexp.MustCompile(`(^|/)sglang/launch_server\.py$`)
	launchProgram = regexp.MustCompile(`(^|/)sglang$`)
	shell         = regexp.MustCompile(`(^|/)(sh|bash|dash|ash|ksh|zsh)$`)
)

// launchModule follows -m, or is one word with it.
const launchModule = "sglang.launch_server"

// findContainers returns the indices of the containers to inject, or why there is none. Init containers
// are never taken: one that runs SGLang does so for a purpose of its own, such as downloading a model.
func findContainers(pod *corev1.Pod) (indices []int, reason string) {
	if names, ok := pod.Annotations[AnnotationContainer]; ok {
		return namedContainers(pod, names)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name == defaultContainer || mentionsLaunch(c) {
			indices = append(indices, i)
		}
	}
	if len(indices) == 0 {
		return nil, reasonNoEngine(strings.Join(containerNames(pod.Spec.Containers), ", "))
	}
	return indices, ""
}

func namedContainers(pod *corev1.Pod, names string) (indices []int, reason string) {
	have := containerNames(pod.Spec.Containers)
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(have, name)
		switch {
		case i < 0 && slices.Contains(containerNames(pod.Spec.InitContainers), name):
			return nil, reasonInitContainer(name, strings.Join(have, ", "))
		case i < 0:
			return nil, reasonNoSuchContainer(name, strings.Join(have, ", "))
		case !slices.Contains(indices, i):
			indices = append(indices, i)
		}
	}
	slices.Sort(indices)
	return indices, ""
}

func mentionsLaunch(c *corev1.Container) bool {
	words := containerArgv(c).words
	return launchWord(words) >= 0 || slices.ContainsFunc(words, launchText.MatchString)
}

// launchWord finds the word after which the flags of SGLang begin, where SGLang is started directly.
func launchWord(words []string) int {
	for i, word := range words {
		switch {
		case word == launchModule && i > 0 && words[i-1] == "-m", word == "-m"+launchModule, launchScript.MatchString(word):
			return i
		case launchProgram.MatchString(word) && i+1 < len(words) && words[i+1] == "serve":
			return i + 1
		}
	}
	return -1
}

// deliveryFor decides how a container can be given the flags, and returns its arguments as SGLang sees them.
func deliveryFor(c *corev1.Container, annotated bool) (Delivery, argv) {
	args := containerArgv(c)
	launch := launchWord(args.words)
	before := args.words
	if launch >= 0 {
		before = args.words[:launch]
		args.start = launch + 1
	}
	switch {
	case slices.ContainsFunc(before, shell.MatchString):
		return DeliveryEnvironment, args
	case launch >= 0:
		return DeliveryFlags, args
	case slices.ContainsFunc(args.words, launchText.MatchString):
		return DeliveryEnvironment, args
	// The user vouches for the container, whatever its image starts.
	case annotated:
		return DeliveryFlags, args
	// Only by its name: its arguments must look like SGLang's, and there must be some, because args that
	// appear where there were none would replace what the image starts by default.
	case len(c.Command) == 0 && len(c.Args) > 0 && strings.HasPrefix(c.Args[0], "-") && args.has(modelPath):
		return DeliveryFlags, args
	default:
		return DeliveryEnvironment, args
	}
}

func containerNames(containers []corev1.Container) []string {
	names := make([]string, len(containers))
	for i := range containers {
		names[i] = containers[i].Name
	}
	return names
}
