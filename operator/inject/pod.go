// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
)

// Result is the outcome of Inject.
type Result struct {
	// Pod is a changed copy. Without injection it differs from the original in annotations only.
	Pod *corev1.Pod
	// Injected is true where at least one container was connected. Partly is true where one of these is not seen to get the
	// flags; Note says why.
	Injected, Partly bool
	// SkipReason is why the pod, or one of its engines' containers, was left alone.
	SkipReason string
	// Note is what the user still has to do.
	Note string
}

// Inject connects the engines' containers of a pod. It does not change its arguments.
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
	if reason := engineUnknown(pod); reason != "" {
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
	l.HostMemory, l.HostMemoryReason = hostMemory(pod, facts)
	l.ByPolicy = facts.ByPolicy
	holdout := holdoutOf(pod, facts)
	l.heldOut = holdout == names.HoldoutTrue
	_, annotated := pod.Annotations[names.AnnotationContainer]
	var given, skipped, notes []string
	partly := false
	if note := facts.Note(); note != "" {
		notes = append(notes, note)
	}
	for _, i := range indices {
		original := &pod.Spec.Containers[i]
		name, engine := original.Name, engineOf(pod, original)
		container, delivery, reason := injectContainer(changed, engine, original, l, annotated)
		if reason != "" {
			skipped = append(skipped, reasons.OfContainer(name, reason))
			continue
		}
		changed.Spec.Containers[i] = *container
		given = append(given, name+"="+string(delivery))
		missing := flagsMissing(pod, engine, container, delivery, annotated)
		partly = partly || missing != ""
		for _, note := range append([]string{missing}, settingNotes(pod, engine, original, delivery, annotated)...) {
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
	if holdout != "" {
		annotate(changed, map[string]string{names.AnnotationHoldout: holdout})
	}
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

// injectContainer returns a changed copy of a container and its delivery, or a reason. What the container needs of the pod is
// added to the pod.
func injectContainer(
	pod *corev1.Pod, engine engines.Engine, original *corev1.Container, l link, annotated bool,
) (*corev1.Container, engines.Delivery, string) {
	c := original.DeepCopy()
	delivery, args := deliveryFor(engine, c, annotated)
	// A file of flags may choose another backend. Flags on the command line would silently override it.
	if delivery == engines.DeliveryFlags && args.Has(engines.ConfigFile) {
		delivery = engines.DeliveryEnvironment
	}
	change, reason := engine.Connect(args, delivery, l.Link)
	if reason != "" {
		return nil, "", reason
	}
	change.Apply(c)
	if reason := addEnv(c, engine, l); reason != "" {
		return nil, "", reason
	}
	if reason := addMounts(c, l.mounts); reason != "" {
		return nil, "", reason
	}
	if reason := prepareEmbeddedNode(c, l); reason != "" {
		return nil, "", reason
	}
	if reason := addShared(pod, c, change); reason != "" {
		return nil, "", reason
	}
	return c, delivery, ""
}

// flagsMissing returns what the user still has to do where the flags could not be appended, and a container is not seen to
// use them.
func flagsMissing(pod *corev1.Pod, engine engines.Engine, c *corev1.Container, delivery engines.Delivery, annotated bool) string {
	if delivery == engines.DeliveryFlags || takesFlags(pod) {
		return ""
	}
	direct, args := deliveryFor(engine, c, annotated)
	if note, shown := engine.Shown(args); shown {
		return note
	}
	about := engine.About()
	if slices.ContainsFunc(args.Words, func(word string) bool { return strings.Contains(word, about.Variable) }) {
		return ""
	}
	if direct == engines.DeliveryFlags {
		return reasons.NoteConfigFile(engines.ConfigFile.Name, about.Other, about.Variable)
	}
	return reasons.NoteScript(about.Name, about.Variable)
}

// settingNotes returns what the user should know about the settings of a container, as the user wrote it.
func settingNotes(pod *corev1.Pod, engine engines.Engine, c *corev1.Container, delivery engines.Delivery, annotated bool) []string {
	if delivery == engines.DeliveryEnvironment && takesFlags(pod) {
		return nil
	}
	_, args := deliveryFor(engine, c, annotated)
	return engine.Notes(args, delivery)
}

// takesFlags is true where the user says that the engine gets the flags, though the pod does not show it.
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
