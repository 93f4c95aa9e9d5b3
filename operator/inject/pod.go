// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Result is what became of a pod.
type Result struct {
	// Pod is a changed copy. Where nothing was injected it differs from the original in annotations only.
	Pod *corev1.Pod
	// Injected says whether at least one container was connected.
	Injected bool
	// SkipReason says why the pod, or one of its SGLang containers, was left alone.
	SkipReason string
	// Note says what the user still has to do.
	Note string
}

// Inject connects the SGLang containers of a pod. It never changes its arguments.
func Inject(pod *corev1.Pod, facts Facts) Result {
	if facts.DriverMissing {
		return Skip(pod, reasonNoDriver(facts.Namespace+"/"+facts.Cluster))
	}
	group, reason := facts.group(pod)
	if reason != "" {
		return Skip(pod, reason)
	}
	indices, reason := findContainers(pod)
	if reason != "" {
		return Skip(pod, reason)
	}

	changed := pod.DeepCopy()
	client, reason := addClient(changed, facts)
	if reason != "" {
		return Skip(pod, reason)
	}
	l, reason := addNode(changed, facts, group)
	if reason != "" {
		return Skip(pod, reason)
	}
	l.mounts, l.delivered = slices.Concat(client, l.mounts), len(client) > 0
	_, annotated := pod.Annotations[AnnotationContainer]
	var given, reasons, notes []string
	for _, i := range indices {
		name := pod.Spec.Containers[i].Name
		container, delivery, reason := injectContainer(&pod.Spec.Containers[i], l, annotated)
		if reason != "" {
			reasons = append(reasons, ofContainer(name, reason))
			continue
		}
		changed.Spec.Containers[i] = *container
		given = append(given, name+"="+string(delivery))
		if note := noteFor(container, delivery, annotated); note != "" {
			notes = append(notes, ofContainer(name, note))
		}
	}
	if len(given) == 0 {
		return Skip(pod, strings.Join(reasons, "; "))
	}
	result := Result{
		Pod: changed, Injected: true, SkipReason: strings.Join(reasons, "; "), Note: strings.Join(notes, "; "),
	}
	annotate(changed, map[string]string{
		AnnotationInjected:   facts.Cluster,
		AnnotationContainers: strings.Join(given, ","),
		AnnotationSkipReason: result.SkipReason,
		AnnotationNote:       result.Note,
	})
	return result
}

// Skip leaves a pod as it is, with an annotation that says why.
func Skip(pod *corev1.Pod, reason string) Result {
	result := Result{Pod: pod.DeepCopy(), SkipReason: reason}
	annotate(result.Pod, map[string]string{
		AnnotationInjected:   "",
		AnnotationContainers: "",
		AnnotationSkipReason: reason,
		AnnotationNote:       "",
	})
	return result
}

// injectContainer returns a changed copy of a container and how it was given the flags, or why it was left
// alone.
func injectContainer(
	original *corev1.Container, l link, annotated bool,
) (*corev1.Container, Delivery, string) {
	c := original.DeepCopy()
	delivery, args := deliveryFor(c, annotated)
	// A file of flags may choose another backend, and flags on the command line would overrule it unseen.
	if delivery == DeliveryFlags && args.has(configFile) {
		delivery = DeliveryEnvironment
	}
	if delivery == DeliveryFlags {
		change, reason := decideFlags(args, l.settings)
		if reason != "" {
			return nil, "", reason
		}
		change.apply(c)
	}
	if reason := addEnv(c, l); reason != "" {
		return nil, "", reason
	}
	if reason := addMounts(c, l.mounts); reason != "" {
		return nil, "", reason
	}
	if reason := hostNode(c, l); reason != "" {
		return nil, "", reason
	}
	return c, delivery, ""
}

func (ch change) apply(c *corev1.Container) {
	if ch.rewrite != nil {
		if i := ch.rewrite.index; i < len(c.Command) {
			c.Command[i] = ch.rewrite.word
		} else {
			c.Args[i-len(c.Command)] = ch.rewrite.word
		}
	}
	// Also where the program is in command: what runs is command followed by args.
	c.Args = append(c.Args, ch.add...)
}

// noteFor says what is left to the user, where the flags could not be appended.
func noteFor(c *corev1.Container, delivery Delivery, annotated bool) string {
	uses := func(word string) bool { return strings.Contains(word, envFlags) }
	if delivery == DeliveryFlags || slices.ContainsFunc(containerArgv(c).words, uses) {
		return ""
	}
	if direct, _ := deliveryFor(c, annotated); direct == DeliveryFlags {
		return noteConfigFile()
	}
	return noteScript()
}

// annotate sets annotations and removes those that are empty, such as the reason of an earlier attempt.
func annotate(pod *corev1.Pod, annotations map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		switch value := annotations[key]; {
		case value == "":
			delete(pod.Annotations, key)
		case pod.Annotations == nil:
			pod.Annotations = map[string]string{key: value}
		default:
			pod.Annotations[key] = value
		}
	}
}
