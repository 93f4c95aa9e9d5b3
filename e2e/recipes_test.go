// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// queueGate is what Kueue holds the pods of a queue with until it admits them.
const queueGate = "kueue.x-k8s.io/admission"

// recipeSpecs connect engines whose pods other controllers make, by the manifests of docs/samples. Of each there are two, on
// different machines.
func recipeSpecs() {
	var made []client.Object
	create := func(ctx context.Context, sample string, templates ...[]string) {
		for _, object := range fromSample(sample) {
			for _, path := range templates {
				small(object, path)
			}
			object.SetNamespace(namespace)
			Expect(kube.Create(ctx, object)).To(Succeed())
			made = append(made, object)
		}
	}

	BeforeAll(func(ctx context.Context) {
		Expect(below.leaderWorkerSets(ctx, "up")).To(Succeed())
		create(ctx, "leader-worker-set", []string{"spec", "leaderWorkerTemplate", "leaderTemplate"},
			[]string{"spec", "leaderWorkerTemplate", "workerTemplate"})
		create(ctx, "stateful-set", []string{"spec", "template"})
		create(ctx, "kueue", []string{"spec", "template"})
	}, NodeTimeout(longest))

	AfterAll(func(ctx context.Context) {
		for _, object := range made {
			Expect(client.IgnoreNotFound(kube.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground)))).To(Succeed())
		}
		for _, app := range []string{"deepseek", "qwen", "llama"} {
			Eventually(func() []corev1.Pod { return podsOfApp(ctx, app) }).WithContext(ctx).WithTimeout(time.Minute).Should(BeEmpty())
		}
		Expect(below.leaderWorkerSets(ctx, "down")).To(Succeed())
	}, NodeTimeout(longest))

	It("of a StatefulSet, in whose script they find their flags", full, func(ctx context.Context) {
		ranks := enginesOfApp(ctx, "qwen")
		expectRanks(ctx, ranks)
		exchange(ctx, ranks[0], ranks[1], 41)
		exchange(ctx, ranks[1], ranks[0], 42)
	}, SpecTimeout(longest))

	It("of a LeaderWorkerSet, also when a restart of one recreates all", func(ctx context.Context) {
		ranks := enginesOfApp(ctx, "deepseek")
		expectRanks(ctx, ranks)
		exchange(ctx, ranks[0], ranks[1], 43)
		body := request{Kind: "mha", Layout: "page_first", V1: true, Pages: modePages, Seed: freshSeed()}
		wrote := ranks[1].write(ctx, body)

		By("ending the worker's process")
		before := podsOfApp(ctx, "deepseek")
		_, err := kube.exec(ctx, namespace, ranks[1].name, "", "sh", "-c", "kill 1")
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			now := podsOfApp(ctx, "deepseek")
			g.Expect(now).To(HaveLen(len(before)))
			for i, pod := range now {
				g.Expect(pod.UID).NotTo(Equal(before[i].UID), "pod %s", pod.Name)
			}
		}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "the group is not recreated")
		ranks = enginesOfApp(ctx, "deepseek")
		expectRead(ctx, ranks[0], body, wrote)
	}, SpecTimeout(4*time.Minute))

	It("that wait in a queue, from the moment they are created", func(ctx context.Context) {
		for _, pod := range podsOfApp(ctx, "llama") {
			Expect(pod.Annotations).To(HaveKeyWithValue("peercache.io/injected", clusterName))
			Expect(pod.Spec.SchedulingGates).To(HaveLen(1))
			Expect(pod.Spec.NodeName).To(BeEmpty(), "a pod that waits")
			admitted := client.RawPatch(types.JSONPatchType, []byte(`[{"op": "remove", "path": "/spec/schedulingGates"}]`))
			Expect(kube.Patch(ctx, &pod, admitted)).To(Succeed())
		}
		replicas := enginesOfApp(ctx, "llama")
		exchange(ctx, replicas[0], replicas[1], 44)
	}, SpecTimeout(longest))
}

func fromSample(name string) (objects []*unstructured.Unstructured) {
	text, err := os.ReadFile("../docs/samples/" + name + ".yaml")
	Expect(err).NotTo(HaveOccurred())
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		Expect(yaml.UnmarshalStrict([]byte(document), &object.Object)).To(Succeed(), document)
		objects = append(objects, object)
	}
	return objects
}

// small makes of a sample's pods what a machine of a test can run: the test engine, without GPUs, on different machines.
func small(object *unstructured.Unstructured, path []string) {
	found, has, err := unstructured.NestedMap(object.Object, path...)
	Expect(err).NotTo(HaveOccurred())
	if !has { // a Service beside what makes pods
		return
	}
	template := &corev1.PodTemplateSpec{}
	Expect(apiruntime.DefaultUnstructuredConverter.FromUnstructured(found, template)).To(Succeed())
	like := enginePod("", "")
	container := &template.Spec.Containers[0]
	container.Image, container.ImagePullPolicy = like.Spec.Containers[0].Image, like.Spec.Containers[0].ImagePullPolicy
	container.ReadinessProbe = like.Spec.Containers[0].ReadinessProbe
	container.Resources = corev1.ResourceRequirements{}
	for i := range container.Args {
		switch {
		case i > 0 && container.Args[i-1] == "--model-path":
			container.Args[i] = modelName
		case i > 0 && container.Args[i-1] == "--page-size":
			container.Args[i] = strconv.Itoa(pageTokens)
		default: // a script
			container.Args[i] = strings.ReplaceAll(container.Args[i], "--page-size 64", "--page-size "+strconv.Itoa(pageTokens))
		}
	}
	for i := range container.Env {
		if container.Env[i].Name == "MODEL" {
			container.Env[i].Value = modelName
		}
	}
	template.Spec.Tolerations, template.Spec.TerminationGracePeriodSeconds = like.Spec.Tolerations, like.Spec.TerminationGracePeriodSeconds
	template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:   corev1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": template.Labels["app"]}},
		}},
	}}
	if object.GetLabels()["kueue.x-k8s.io/queue-name"] != "" {
		template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: queueGate}}
	}
	changed, err := apiruntime.DefaultUnstructuredConverter.ToUnstructured(template)
	Expect(err).NotTo(HaveOccurred())
	Expect(unstructured.SetNestedMap(object.Object, changed, path...)).To(Succeed())
}

// podsOfApp are those of the suite's namespace, by name.
func podsOfApp(ctx context.Context, app string) []corev1.Pod {
	var list corev1.PodList
	Expect(kube.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"app": app})).To(Succeed())
	return list.Items
}

// enginesOfApp waits until both are Ready, each on a machine of its own.
func enginesOfApp(ctx context.Context, app string) (engines []engine) {
	Eventually(func(g Gomega) {
		engines = nil
		for _, pod := range podsOfApp(ctx, app) {
			g.Expect(ready(&pod)).To(BeTrue(), "%s is %s", pod.Name, pod.Status.Phase)
			g.Expect(pod.Annotations).To(HaveKeyWithValue("peercache.io/injected", clusterName))
			engines = append(engines, engine{name: pod.Name, node: pod.Spec.NodeName})
		}
		g.Expect(engines).To(HaveLen(2))
	}).WithContext(ctx).WithTimeout(90*time.Second).Should(Succeed(), "engines of %s do not become Ready", app)
	Expect(engines[0].node).NotTo(Equal(engines[1].node))
	return engines
}

// expectRanks checks that SGLang knows its place, whatever the webhook has added.
func expectRanks(ctx context.Context, ranks []engine) {
	for i, rank := range ranks {
		log, err := kube.logs(ctx, namespace, rank.name, "sglang", false)
		Expect(err).NotTo(HaveOccurred())
		Expect(log).To(MatchRegexp(`--node-rank %d\s`, i), "command line of %s", rank.name)
	}
}
