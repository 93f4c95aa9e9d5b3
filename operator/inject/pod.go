// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/inject/sglang"
)

// Result is the outcome of Inject.
type Result struct {
	// Pod is a changed copy. Without injection it differs from the original in annotations only.
	Pod *corev1.Pod
	// Injected is true where at least one container was connected. Partly is true where one of these is not seen to get the
	// flags; Note says why.
	Injected, Partly bool
	// SkipReason is why the pod, or one of its SGLang containers, was left alone.
	SkipReason string
	// Note is what the user still has to do.
	Note string
}

// Inject connects the SGLang containers of a pod. It does not change its arguments.
func Inject(pod *corev1.Pod, facts Facts) Result {
	if facts.DriverMissing {
		return Skip(pod, reasons.DriverMissing(facts.Namespace+"/"+facts.Cluster))
	}
	if reason := hostPathRefused(pod, facts); reason != "" {
		return Skip(pod, reason)
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
	l.mounts, l.delivered, l.tagScope = slices.Concat(client, l.mounts), len(client) > 0, facts.tagScope()
	_, annotated := pod.Annotations[names.AnnotationContainer]
	var given, skipped, notes []string
	partly := false
	if note := facts.Note(); note != "" {
		notes = append(notes, note)
	}
	for _, i := range indices {
		name := pod.Spec.Containers[i].Name
		container, delivery, reason := injectContainer(&pod.Spec.Containers[i], l, annotated)
		if reason != "" {
			skipped = append(skipped, reasons.OfContainer(name, reason))
			continue
		}
		changed.Spec.Containers[i] = *container
		given = append(given, name+"="+string(delivery))
		missing := flagsMissing(pod, container, delivery, annotated)
		partly = partly || missing != ""
		for _, note := range append([]string{missing}, settingNotes(pod, &pod.Spec.Containers[i], delivery, annotated)...) {
			if note != "" {
				notes = append(notes, reasons.OfContainer(name, note))
			}
		}
	}
	if len(given) == 0 {
		return Skip(pod, strings.Join(skipped, "; "))
	}
	if reason := facts.Admission.noRoom(pod, changed); reason != "" {
		return Skip(pod, reason)
	}
	result := Result{
		Pod: changed, Injected: true, Partly: partly, SkipReason: strings.Join(skipped, "; "), Note: strings.Join(notes, "; "),
	}
	injected, inPart := facts.Cluster, ""
	if partly {
		injected, inPart = inPart, injected
	}
	annotate(changed, map[string]string{
		names.AnnotationInjected:   injected,
		names.AnnotationPartly:     inPart,
		names.AnnotationContainers: strings.Join(given, ","),
		names.AnnotationSkipReason: result.SkipReason,
		names.AnnotationNote:       result.Note,
	})
	return result
}

// Skip returns the pod with an annotation that gives the reason.
func Skip(pod *corev1.Pod, reason string) Result {
	result := Result{Pod: pod.DeepCopy(), SkipReason: reason}
	annotate(result.Pod, map[string]string{
		names.AnnotationInjected:   "",
		names.AnnotationPartly:     "",
		names.AnnotationContainers: "",
		names.AnnotationSkipReason: reason,
		names.AnnotationNote:       "",
	})
	return result
}

// injectContainer returns a changed copy of a container and its delivery, or a reason.
func injectContainer(
	original *corev1.Container, l link, annotated bool,
) (*corev1.Container, Delivery, string) {
	c := original.DeepCopy()
	delivery, args := deliveryFor(c, annotated)
	// A file of flags may choose another backend. Flags on the command line would silently override it.
	if delivery == DeliveryFlags && args.Has(sglang.ConfigFile) {
		delivery = DeliveryEnvironment
	}
	if delivery == DeliveryFlags {
		change, reason := decideFlags(args, l.settings)
		if reason != "" {
			return nil, "", reason
		}
		change.add = append(change.add, pageSizeFlags(args)...)
		change.apply(c)
	}
	if reason := addEnv(c, l); reason != "" {
		return nil, "", reason
	}
	if reason := addMounts(c, l.mounts); reason != "" {
		return nil, "", reason
	}
	if reason := prepareEmbeddedNode(c, l); reason != "" {
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
	// Args are right even where the program is in command: the container runs command followed by args.
	c.Args = append(c.Args, ch.add...)
}

// flagsMissing returns what the user still has to do where the flags could not be appended, and a container is not seen to
// use them.
func flagsMissing(pod *corev1.Pod, c *corev1.Container, delivery Delivery, annotated bool) string {
	if delivery == DeliveryFlags || takesFlags(pod) {
		return ""
	}
	words := sglang.ContainerArgv(c).Words
	if other := sglang.OtherBackend(words); other != "" {
		return reasons.NoteOtherBackend(other)
	}
	if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, names.EnvFlags) }) {
		return ""
	}
	if direct, _ := deliveryFor(c, annotated); direct == DeliveryFlags {
		return reasons.NoteConfigFile()
	}
	return reasons.NoteScript()
}

// takesFlags is true where the user says that SGLang gets the flags, though the pod does not show it.
func takesFlags(pod *corev1.Pod) bool { return pod.Annotations[names.AnnotationTakesFlags] == "true" }

// annotate sets annotations, and removes the empty ones, such as the reason of an earlier attempt.
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
