// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// checkResult holds whatever pod comes in: the input is untouched, the user loses nothing, a second
// injection changes nothing, and the result says what happened.
func checkResult(t *testing.T, before, pod *corev1.Pod, result Result, facts Facts) {
	t.Helper()
	if !reflect.DeepEqual(before, pod) {
		t.Errorf("Inject changed its argument")
	}
	if err := nothingLost(pod, result.Pod); err != nil {
		t.Errorf("the user lost something: %v", err)
	}
	if again := Inject(result.Pod, facts); !reflect.DeepEqual(again, result) {
		t.Errorf("a second injection gives something else:\n%s\nafter the first gave:\n%s", toJSON(again), toJSON(result))
	}
	injected := result.Pod.Annotations[AnnotationInjected]
	switch {
	case result.Injected && injected != facts.Cluster:
		t.Errorf("annotation %s is %q on an injected pod", AnnotationInjected, injected)
	case !result.Injected && injected != "":
		t.Errorf("annotation %s is %q on a pod that was not injected", AnnotationInjected, injected)
	case !result.Injected && result.SkipReason == "":
		t.Errorf("neither injected nor a reason")
	case !result.Injected && !reflect.DeepEqual(result.Pod.Spec, pod.Spec):
		t.Errorf("a pod that was not injected has another spec")
	}
	if got := result.Pod.Annotations[AnnotationSkipReason]; got != result.SkipReason {
		t.Errorf("annotation %s is %q, want %q", AnnotationSkipReason, got, result.SkipReason)
	}
	if result.Injected {
		checkUnprivileged(t, pod, result.Pod, facts)
		checkNotHeldBack(t, pod, result.Pod)
	}
}

// checkNotHeldBack: a pod starts on a machine where the cluster has no node, or not yet. (What else could hold a pod back, such as
// gates and node selectors, injection leaves alone: nothingLost.)
func checkNotHeldBack(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	for _, v := range after.Spec.Volumes[len(before.Spec.Volumes):] {
		if v.HostPath != nil && (v.HostPath.Type == nil || *v.HostPath.Type != corev1.HostPathDirectoryOrCreate) {
			t.Errorf("volume %s must be there before the pod starts: %s", v.Name, toJSON(v.HostPath))
		}
	}
	for _, c := range after.Spec.InitContainers[len(before.Spec.InitContainers):] {
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if !sidecar && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == plan.SocketVolume }) {
			t.Errorf("init container %s has the node's socket, and may wait for it", c.Name)
		}
	}
}

// checkUnprivileged: what injection adds needs no network of the machine and no privilege, and keeps the pod's
// quality of service. Only what runs a node with RDMA may pin memory.
func checkUnprivileged(t *testing.T, before, after *corev1.Pod, facts Facts) {
	t.Helper()
	if after.Spec.HostNetwork != before.Spec.HostNetwork || after.Spec.HostIPC != before.Spec.HostIPC {
		t.Errorf("the pod was given the machine's network or IPC")
	}
	for _, c := range after.Spec.InitContainers[len(before.Spec.InitContainers):] {
		pins := c.Name == plan.ContainerName && slices.ContainsFunc(facts.Groups, func(g string) bool { return facts.Node(g).Node.RDMA })
		s := c.SecurityContext
		if s == nil || *s.AllowPrivilegeEscalation || *s.RunAsNonRoot == pins || !*s.ReadOnlyRootFilesystem ||
			s.Privileged != nil || len(s.Capabilities.Add) > 0 != pins || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
			s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("init container %s is not restricted: %s", c.Name, toJSON(s))
		}
		if len(c.Resources.Limits) < 2 || !reflect.DeepEqual(c.Resources.Limits, c.Resources.Requests) {
			t.Errorf("init container %s has requests other than limits: %s", c.Name, toJSON(c.Resources))
		}
	}
}

// nothingLost compares an injected pod with the original, and says what of the original is missing or has
// another value. Everything that injection may touch is checked and put back, and then all must be equal.
func nothingLost(before, after *corev1.Pod) error {
	after = after.DeepCopy()
	for key, value := range before.Annotations {
		if strings.HasPrefix(key, "peercache.io/injected") || key == AnnotationSkipReason || key == AnnotationNote {
			continue // a report of an earlier injection, which this one replaces
		}
		if key == plan.MultusNetworks && networksKept(value, after.Annotations[key]) {
			continue
		}
		if after.Annotations[key] != value {
			return fmt.Errorf("annotation %s was %q and is %q", key, value, after.Annotations[key])
		}
	}
	for key := range after.Annotations {
		if _, ok := before.Annotations[key]; !ok && !strings.HasPrefix(key, "peercache.io/") && key != plan.MultusNetworks {
			return fmt.Errorf("annotation %s appeared", key)
		}
	}
	after.Annotations = before.Annotations
	if _, ok := before.Labels[v1alpha1.LabelGroup]; !ok {
		delete(after.Labels, v1alpha1.LabelGroup) // of a sidecar, for the metrics
		if len(before.Labels) == 0 {
			after.Labels = before.Labels
		}
	}

	if err := begins("volumes", before.Spec.Volumes, after.Spec.Volumes, 3); err != nil {
		return err
	}
	after.Spec.Volumes = before.Spec.Volumes
	if err := begins("initContainers", before.Spec.InitContainers, after.Spec.InitContainers, 2); err != nil {
		return err
	}
	after.Spec.InitContainers = before.Spec.InitContainers
	if err := begins("imagePullSecrets", before.Spec.ImagePullSecrets, after.Spec.ImagePullSecrets, 8); err != nil {
		return err
	}
	after.Spec.ImagePullSecrets = before.Spec.ImagePullSecrets

	if err := begins("resourceClaims", before.Spec.ResourceClaims, after.Spec.ResourceClaims, 8); err != nil {
		return err
	}
	after.Spec.ResourceClaims = before.Spec.ResourceClaims

	if len(before.Spec.Containers) != len(after.Spec.Containers) {
		return fmt.Errorf("%d containers became %d", len(before.Spec.Containers), len(after.Spec.Containers))
	}
	for i := range before.Spec.Containers {
		if err := containerKept(&before.Spec.Containers[i], &after.Spec.Containers[i]); err != nil {
			return fmt.Errorf("container %s: %w", before.Spec.Containers[i].Name, err)
		}
	}
	if !reflect.DeepEqual(before, after) {
		return fmt.Errorf("a field that injection has no business with changed: %s became %s", toJSON(before), toJSON(after))
	}
	return nil
}

// containerKept also puts the checked fields of after back.
func containerKept(before, after *corev1.Container) error {
	if err := begins("volumeMounts", before.VolumeMounts, after.VolumeMounts, 2); err != nil {
		return err
	}
	if err := wordsKept(before.Command, after.Command); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	if err := resourcesKept(before, after); err != nil {
		return err
	}
	if err := rightsKept(before, after); err != nil {
		return err
	}
	if len(before.Command) != len(after.Command) || len(after.Args) < len(before.Args) {
		return fmt.Errorf("command %q args %q became command %q args %q", before.Command, before.Args, after.Command, after.Args)
	}
	if err := wordsKept(before.Args, after.Args[:len(before.Args)]); err != nil {
		return fmt.Errorf("args: %w", err)
	}
	if err := envKept(before.Env, after.Env); err != nil {
		return err
	}
	after.VolumeMounts, after.Command, after.Args, after.Env = before.VolumeMounts, before.Command, before.Args, before.Env
	return nil
}

// resourcesKept: what the user requests is requested as it was, and nothing but devices and huge pages is added.
func resourcesKept(before, after *corev1.Container) error {
	for _, side := range []struct {
		what    string
		was, is corev1.ResourceList
	}{
		{"limits", before.Resources.Limits, after.Resources.Limits},
		{"requests", before.Resources.Requests, after.Resources.Requests},
	} {
		for name, quantity := range side.was {
			if got := side.is[name]; got.Cmp(quantity) != 0 {
				return fmt.Errorf("%s of %s were %s and are %s", side.what, name, quantity.String(), got.String())
			}
		}
		for name := range side.is {
			if _, ok := side.was[name]; !ok && !strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), "hugepages-") {
				return fmt.Errorf("%s of %s appeared", side.what, name)
			}
		}
	}
	if err := begins("claims", before.Resources.Claims, after.Resources.Claims, 8); err != nil {
		return err
	}
	after.Resources = before.Resources
	return nil
}

// rightsKept: nothing but IPC_LOCK is added to what a container may do.
func rightsKept(before, after *corev1.Container) error {
	if reflect.DeepEqual(before.SecurityContext, after.SecurityContext) {
		return nil
	}
	want := before.SecurityContext.DeepCopy()
	if want == nil {
		want = &corev1.SecurityContext{}
	}
	if want.Capabilities == nil {
		want.Capabilities = &corev1.Capabilities{}
	}
	want.Capabilities.Add = append(want.Capabilities.Add, "IPC_LOCK")
	if !reflect.DeepEqual(want, after.SecurityContext) {
		return fmt.Errorf("securityContext %s became %s", toJSON(before.SecurityContext), toJSON(after.SecurityContext))
	}
	after.SecurityContext = before.SecurityContext
	return nil
}

// networksKept: what the user asks of Multus still stands in front, as it was written.
func networksKept(before, after string) bool {
	before = strings.TrimSpace(before)
	if !strings.HasPrefix(before, "[") {
		return before == "" || after == before || strings.HasPrefix(after, before+",")
	}
	var was, is []map[string]any
	if json.Unmarshal([]byte(before), &was) != nil {
		return after == before
	}
	if json.Unmarshal([]byte(after), &is) != nil || len(is) < len(was) {
		return false
	}
	return len(was) == 0 || reflect.DeepEqual(was, is[:len(was)])
}

// wordsKept: only a JSON object may change, and keeps all its keys and values.
func wordsKept(before, after []string) error {
	for i := range before {
		if before[i] == after[i] {
			continue
		}
		was, is := map[string]any{}, map[string]any{}
		if err := json.Unmarshal([]byte(jsonPart(before[i])), &was); err != nil {
			return fmt.Errorf("%q became %q", before[i], after[i])
		}
		if err := json.Unmarshal([]byte(jsonPart(after[i])), &is); err != nil {
			return fmt.Errorf("%q became %q, which is not JSON: %w", before[i], after[i], err)
		}
		for key, value := range was {
			if !reflect.DeepEqual(is[key], value) {
				return fmt.Errorf("key %s of %q became %q", key, before[i], after[i])
			}
		}
	}
	return nil
}

func jsonPart(word string) string {
	if i := strings.IndexByte(word, '{'); i >= 0 {
		return word[i:]
	}
	return word
}

// envKept: what counts of each variable is still there under its name, or for PYTHONPATH behind the client.
func envKept(before, after []corev1.EnvVar) error {
	was, is := effective(before), effective(after)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		want, got := was[name], is[name]
		if reflect.DeepEqual(want, got) {
			continue
		}
		if name != envPythonPath {
			return fmt.Errorf("variable %s was %s and is %s", name, toJSON(want), toJSON(got))
		}
		moved := is[envUserPythonPath]
		moved.Name = envPythonPath
		switch {
		case want.ValueFrom != nil && reflect.DeepEqual(want, moved) && got.Value == clientDir+":$("+envUserPythonPath+")":
		case want.ValueFrom == nil && want.Value == "" && got.Value == clientDir:
		case want.ValueFrom == nil && want.Value != "" && got.Value == clientDir+":"+want.Value:
		default:
			return fmt.Errorf("PYTHONPATH was %s and is %s", toJSON(want), toJSON(got))
		}
	}
	ours := []string{envPythonPath, envUserPythonPath, envSocket, envFlags, envPodNamespace, envPodName, envNodeID}
	for name := range is {
		if _, ok := was[name]; !ok && !slices.Contains(ours, name) {
			return fmt.Errorf("variable %s appeared", name)
		}
	}
	order := func(env []corev1.EnvVar) (names []string) {
		for _, v := range env {
			if !slices.Contains(ours, v.Name) {
				names = append(names, v.Name)
			}
		}
		return names
	}
	if a, b := order(before), order(after); !slices.Equal(a, b) {
		return fmt.Errorf("the order of variables %q became %q", a, b)
	}
	return nil
}

// effective is the definition of each variable that counts: the last.
func effective(env []corev1.EnvVar) map[string]corev1.EnvVar {
	last := map[string]corev1.EnvVar{}
	for _, v := range env {
		last[v.Name] = v
	}
	return last
}

// begins: the list still begins with what it was, and at most a few are added.
func begins[T any](what string, before, after []T, added int) error {
	if len(after) < len(before) || len(after) > len(before)+added {
		return fmt.Errorf("%s: %d became %d", what, len(before), len(after))
	}
	for i := range before {
		if !reflect.DeepEqual(before[i], after[i]) {
			return fmt.Errorf("%s[%d]: %s became %s", what, i, toJSON(before[i]), toJSON(after[i]))
		}
	}
	return nil
}

func toJSON(v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
