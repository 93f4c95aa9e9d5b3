// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/engines/sglang"
	"github.com/peercache/peercache/operator/inject/injecttest"
)

// FuzzInject builds pods from the parts that injection handles, and checks the invariants.
//
//	go test ./operator/inject -run '^$' -fuzz FuzzInject -fuzztime 30s
func FuzzInject(f *testing.F) {
	f.Add([]byte{}, "", "")
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, `{"tag":"x"}`, "/app")
	for seed := range 400 {
		bytes := make([]byte, 40+seed%29)
		for i := range bytes {
			bytes[i] = byte(seed*31 + i*i*7 + i*seed)
		}
		f.Add(bytes, `{ "backend_name" : "peercache" }`, "--model-path")
	}
	f.Fuzz(func(t *testing.T, choices []byte, config, word string) {
		if !utf8.ValidString(config) || !utf8.ValidString(word) {
			t.Skip("an API server sends no other text")
		}
		pod := (&injecttest.PodMaker{Choices: choices, Config: config, Word: word}).Pod()
		facts := fuzzFacts[len(choices)%len(fuzzFacts)]()
		before := pod.DeepCopy()
		result := Inject(pod, facts)
		checkResult(t, before, pod, result, facts)

		if result.Injected {
			operations, err := diff(pod, result.Pod)
			if err != nil {
				t.Fatal(err)
			}
			checkApplied(t, pod, result.Pod, operations)
		}

		// The result must share no memory with the original.
		if result.Injected {
			overwrite(result.Pod)
			if !reflect.DeepEqual(before, pod) {
				t.Errorf("changing the result changes the original")
			}
		}
	})
}

// fuzzFacts are all modes and deliveries, and clusters that add much to a pod.
var fuzzFacts = []func() Facts{
	testFacts,
	func() Facts {
		facts := testFacts()
		facts.Groups = []string{"numa0", "numa1"}
		facts.PullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		return facts
	},
	func() Facts { return factsOfCluster("serving", injecttest.ImageVolume, injecttest.PullSecret) },
	func() Facts { return factsOfCluster("serving", injecttest.ShareAll) },
	func() Facts { return factsOfCluster("caches", injecttest.ByDriver) },
	func() Facts { return factsOfCluster("serving", injecttest.Preinstalled) },
	func() Facts { return factsOfCluster("serving", sidecar, injecttest.PullSecret) },
	func() Facts { return factsOfCluster("serving", sidecar, injecttest.ImageVolume, withTLS) },
	func() Facts { return factsOfCluster("caches", sidecar, sharedRails) },
	func() Facts { return factsOfCluster("serving", sidecar, sharedRails, hugeGigabyte) },
	func() Facts { return factsOfCluster("serving", sidecar, draRails) },
	func() Facts { return factsOfCluster("serving", embeddedNode) },
	func() Facts { return factsOfCluster("serving", embeddedNode, hugeGigabyte, withTLS) },
	func() Facts { return factsOfCluster("serving", embeddedNode, sharedRails, withTLS) },
	func() Facts { return factsOfCluster("serving", embeddedNode, draRails) },
}

// FuzzMergeExtraConfig checks that the result is refused, or is a JSON object with all keys of the user.
func FuzzMergeExtraConfig(f *testing.F) {
	for _, value := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":{"b":"}"}}`, `{"socket":null}`, `{"a":1,"a":2}`, `[]`, `null`, `"x"`, `@f`, ``,
		`{"module_path":"peercache.store"}` + "\n", `{"backend_name":1}`, "{\"\u2028\":\"\xff\"}",
	} {
		f.Add(value)
	}
	embedding := embeddedLink(&corev1.Pod{}, Facts{}, factsOfCluster("serving", embeddedNode, sharedRails, withTLS).Node("numa0").Node).Link
	f.Fuzz(func(t *testing.T, value string) {
		for _, settings := range [][]engines.Setting{sglang.SocketSettings("/run/peercache/default.sock"), sglang.Settings(embedding)} {
			merged, reason := sglang.MergeExtraConfig(value, settings)
			if reason != "" {
				continue
			}
			if err := wordsKept([]string{value}, []string{merged}); err != nil {
				t.Error(err)
			}
			for _, s := range settings {
				if !strings.Contains(merged, `"`+s.Key+`"`) && (s.Instead == "" || !strings.Contains(merged, `"`+s.Instead+`"`)) {
					t.Errorf("%q lacks %s", merged, s.Key)
				}
			}
			if again, reason := sglang.MergeExtraConfig(merged, settings); again != merged || reason != "" {
				t.Errorf("%q became %q (%s)", merged, again, reason)
			}
		}
	})
}

// overwrite changes everything that a shallow copy would share.
func overwrite(pod *corev1.Pod) {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			for j := range list[i].Command {
				list[i].Command[j] = "scribble"
			}
			for j := range list[i].Args {
				list[i].Args[j] = "scribble"
			}
			for j := range list[i].Env {
				list[i].Env[j] = corev1.EnvVar{Name: "scribble"}
			}
			for name := range list[i].Resources.Limits {
				list[i].Resources.Limits[name] = resource.MustParse("7")
			}
			if s := list[i].SecurityContext; s != nil && s.Capabilities != nil {
				s.Capabilities.Add = append(s.Capabilities.Add[:0], "scribble")
			}
			for j := range list[i].VolumeMounts {
				list[i].VolumeMounts[j].Name = "scribble"
			}
		}
	}
	for i := range pod.Spec.Volumes {
		pod.Spec.Volumes[i] = corev1.Volume{Name: "scribble"}
	}
	for key := range pod.Annotations {
		pod.Annotations[key] = "scribble"
	}
}
