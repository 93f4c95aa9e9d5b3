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
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/plan"
)

// checkResult checks the invariants of every result: the input is unchanged, the user loses nothing, a second injection
// changes nothing, and the result says what happened.
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
	injected, partly := result.Pod.Annotations[names.AnnotationInjected], result.Pod.Annotations[names.AnnotationPartly]
	if result.Partly {
		injected, partly = partly, injected
	}
	switch {
	case partly != "":
		t.Errorf("annotations %s and %s contradict each other or the result", names.AnnotationInjected, names.AnnotationPartly)
	case result.Partly && (!result.Injected || result.Note == ""):
		t.Errorf("partly connected, but not injected, or without a note")
	case result.Injected && injected != facts.Cluster:
		t.Errorf("annotation %s is %q on an injected pod", names.AnnotationInjected, injected)
	case !result.Injected && injected != "":
		t.Errorf("annotation %s is %q on a pod that was not injected", names.AnnotationInjected, injected)
	case !result.Injected && result.SkipReason == "":
		t.Errorf("neither injected nor a reason")
	case !result.Injected && !reflect.DeepEqual(result.Pod.Spec, pod.Spec):
		t.Errorf("a pod that was not injected has another spec")
	}
	if got := result.Pod.Annotations[names.AnnotationSkipReason]; got != result.SkipReason {
		t.Errorf("annotation %s is %q, want %q", names.AnnotationSkipReason, got, result.SkipReason)
	}
	if result.Injected {
		checkUnprivileged(t, pod, result.Pod, facts)
		checkNotHeldBack(t, pod, result.Pod)
		checkTenant(t, result, facts)
	}
}

// checkTenant checks that an engine sees the sockets of its own namespace, and no others.
func checkTenant(t *testing.T, result Result, facts Facts) {
	t.Helper()
	if facts.Mode == v1alpha1.InjectionSidecar || facts.Mode == v1alpha1.InjectionEmbedded {
		return // the pod has its own node
	}
	want := map[bool]string{true: facts.PodNamespace}[facts.Sharing != v1alpha1.SharingCluster && facts.Socket != v1alpha1.SocketCSI]
	named := map[string]int{}
	for _, c := range result.Pod.Spec.Containers {
		named[c.Name]++
	}
	for _, c := range result.Pod.Spec.Containers {
		// The API server refuses a pod with two containers of one name, and the annotation cannot say which of them it means.
		if named[c.Name] > 1 || !strings.Contains(","+result.Pod.Annotations[names.AnnotationContainers], ","+c.Name+"=") {
			continue
		}
		for _, m := range c.VolumeMounts {
			if overlap(m.MountPath, plan.SocketDir) && (m.Name != plan.SocketVolume || m.SubPath != want) {
				t.Errorf("container %s sees %s of volume %s, want %q", c.Name, toJSON(m), m.Name, want)
			}
		}
	}
}

// checkNotHeldBack checks that a pod starts on a machine where the cluster has no node yet. nothingLost covers the other
// fields that could delay a pod, such as gates and node selectors.
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

// checkUnprivileged checks that injection adds no host network and no privilege, and keeps the quality of service class. Only
// a container that runs a node with RDMA may pin memory.
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

// nothingLost returns an error where an injected pod lacks or changes a part of the original. It checks each field that
// injection may change and restores it; then both pods must be equal.
func nothingLost(before, after *corev1.Pod) error {
	after = after.DeepCopy()
	for key, value := range before.Annotations {
		if strings.HasPrefix(key, "peercache.io/injected") || slices.Contains([]string{names.AnnotationPartly, names.AnnotationSkipReason, names.AnnotationNote}, key) {
			continue // injection replaces the report of an earlier one
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
		delete(after.Labels, v1alpha1.LabelGroup) // the sidecar needs it for its metrics
		if len(before.Labels) == 0 {
			after.Labels = before.Labels
		}
	}

	if err := beginsWith("volumes", before.Spec.Volumes, after.Spec.Volumes, 5+len(before.Spec.Containers)); err != nil {
		return err
	}
	after.Spec.Volumes = before.Spec.Volumes
	if err := beginsWith("initContainers", before.Spec.InitContainers, after.Spec.InitContainers, 2); err != nil {
		return err
	}
	after.Spec.InitContainers = before.Spec.InitContainers
	if err := beginsWith("imagePullSecrets", before.Spec.ImagePullSecrets, after.Spec.ImagePullSecrets, 8); err != nil {
		return err
	}
	after.Spec.ImagePullSecrets = before.Spec.ImagePullSecrets

	if err := beginsWith("resourceClaims", before.Spec.ResourceClaims, after.Spec.ResourceClaims, 8); err != nil {
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

// containerKept checks one container, and restores the checked fields of after.
func containerKept(before, after *corev1.Container) error {
	if err := beginsWith("volumeMounts", before.VolumeMounts, after.VolumeMounts, 4); err != nil {
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

// resourcesKept checks that the user's requests stay, and that only devices and huge pages are added.
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
	if err := beginsWith("claims", before.Resources.Claims, after.Resources.Claims, 8); err != nil {
		return err
	}
	after.Resources = before.Resources
	return nil
}

// rightsKept checks that a container gets no right but IPC_LOCK.
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

// networksKept checks that the user's networks for Multus stay in front, as they were written.
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

// wordsKept checks that only a JSON object changes, and keeps all its keys and values.
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

// envKept checks that the value of each variable stays under its name, or for PYTHONPATH behind the client.
func envKept(before, after []corev1.EnvVar) error {
	was, is := effective(before), effective(after)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		want, got := was[name], is[name]
		if reflect.DeepEqual(want, got) {
			continue
		}
		if name != names.EnvPythonPath {
			return fmt.Errorf("variable %s was %s and is %s", name, toJSON(want), toJSON(got))
		}
		moved := is[names.EnvUserPythonPath]
		moved.Name = names.EnvPythonPath
		switch {
		case want.ValueFrom != nil && reflect.DeepEqual(want, moved) && got.Value == names.ClientDir+":$("+names.EnvUserPythonPath+")":
		case want.ValueFrom == nil && want.Value == "" && got.Value == names.ClientDir:
		case want.ValueFrom == nil && want.Value != "" && got.Value == names.ClientDir+":"+want.Value:
		default:
			return fmt.Errorf("PYTHONPATH was %s and is %s", toJSON(want), toJSON(got))
		}
	}
	ours := []string{names.EnvPythonPath, names.EnvUserPythonPath, names.EnvSocket, names.EnvNUMASockets, names.EnvTagScope, names.EnvHoldout, names.EnvFlags, names.EnvVLLMFlags, names.EnvPodNamespace, names.EnvPodName, names.EnvNodeID}
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

// effective returns the definition of each variable that counts, which is the last.
func effective(env []corev1.EnvVar) map[string]corev1.EnvVar {
	last := map[string]corev1.EnvVar{}
	for _, v := range env {
		last[v.Name] = v
	}
	return last
}

// beginsWith checks that a list still begins with the former list, and has at most a few more elements.
func beginsWith[T any](what string, before, after []T, added int) error {
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
