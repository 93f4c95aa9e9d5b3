// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/injecttest"
	"github.com/peercache/peercache/operator/inject/names"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// policyClusters are the deliveries, and the other fields of a cluster on which its policy depends.
var policyClusters = []struct {
	name string
	spec func(*v1alpha1.PeerCacheClusterSpec)
	// driverMissing is true where the CSI driver is not installed.
	driverMissing bool
	// otherNamespace is true where the pods are in another namespace than the cluster.
	otherNamespace bool
	// openShift is true where the namespace of the pods gives them their users, and level is its level of Pod Security.
	openShift bool
	level     string
	// limits are those of the cluster's namespace.
	limits []corev1.LimitRangeItem
}{
	{name: "an init container, with pull secrets", spec: func(s *v1alpha1.PeerCacheClusterSpec) {
		injecttest.PullSecret(s)
		injecttest.PullElsewhere(s)
	}},
	{name: "of another namespace, with pull secrets", otherNamespace: true, spec: func(s *v1alpha1.PeerCacheClusterSpec) {
		injecttest.PullSecret(s)
		injecttest.PullElsewhere(s)
		s.Injection.NamespaceSelector = &metav1.LabelSelector{}
	}},
	{name: "an image volume, with groups, of another namespace's cluster", otherNamespace: true, spec: func(s *v1alpha1.PeerCacheClusterSpec) {
		injecttest.ImageVolume(s)
		for numa, name := range []string{"rail0", "rail1"} {
			s.Rails = append(s.Rails, v1alpha1.Rail{
				Name: name, NUMANode: new(int32(numa)), Attachment: v1alpha1.AttachmentHostNetwork,
				HostNetwork: &v1alpha1.HostDevice{Device: v1alpha1.DeviceName("mlx5_" + name[4:])},
			})
		}
		s.Transport = v1alpha1.TransportRDMA
		s.Injection.NamespaceSelector = purposeInference
	}},
	{name: "preinstalled, of another namespace", otherNamespace: true, spec: func(s *v1alpha1.PeerCacheClusterSpec) {
		injecttest.Preinstalled(s)
		injecttest.PullSecret(s)
		s.Injection.NamespaceSelector = &metav1.LabelSelector{}
	}},
	{name: "an init container of another namespace's cluster, with images of its own", otherNamespace: true, spec: func(s *v1alpha1.PeerCacheClusterSpec) {
		injecttest.OwnImages(s)
		s.Injection.NamespaceSelector = &metav1.LabelSelector{}
	}},
	{name: "an image volume with an image of its own", spec: func(s *v1alpha1.PeerCacheClusterSpec) {
		injecttest.OwnImages(s)
		injecttest.ImageVolume(s)
	}},
	{name: "an image volume of another namespace's cluster", otherNamespace: true, spec: func(s *v1alpha1.PeerCacheClusterSpec) {
		injecttest.OwnImages(s)
		injecttest.ImageVolume(s)
		s.Injection.NamespaceSelector = purposeInference
	}},
	{name: "of another namespace, which is not served", otherNamespace: true, spec: injecttest.PullSecret},
	{name: "of another namespace, which is not selected", otherNamespace: true, spec: func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Injection.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"purpose": "training"}}
	}},
	{name: "whose pages all namespaces share", spec: injecttest.ShareAll},
	{name: "of another namespace, whose pages all share", otherNamespace: true, spec: func(s *v1alpha1.PeerCacheClusterSpec) {
		injecttest.ShareAll(s)
		s.Injection.NamespaceSelector = &metav1.LabelSelector{}
	}},
	{name: "by a CSI volume", spec: injecttest.ByDriver},
	{name: "by a CSI volume whose driver is missing", spec: injecttest.ByDriver, driverMissing: true},
	{name: "on OpenShift", openShift: true},
	{name: "on OpenShift, in a namespace that is privileged", openShift: true, level: "privileged"},
	{name: "on OpenShift, by a CSI volume", openShift: true, spec: injecttest.ByDriver},
	{name: "with a minimum of resources", limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
	}}},
}

// purposeInference selects the labels that newPolicyCluster gives a namespace.
var purposeInference = &metav1.LabelSelector{
	MatchLabels: map[string]string{"purpose": "inference"},
	MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "stage", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"test"}},
		{Key: "team", Operator: metav1.LabelSelectorOpExists}, {Key: "closed", Operator: metav1.LabelSelectorOpDoesNotExist},
	},
}

// TestPolicy checks that the API server turns every pod into the result of Inject, and does not change an injected pod.
func TestPolicy(t *testing.T) {
	testenv.Since(t, 36, "MutatingAdmissionPolicy in v1")
	tried, notFlat := 0, 0
	for i, test := range policyClusters {
		t.Run(test.name, func(t *testing.T) {
			c := testenv.Client(t)
			cluster, namespace := newPolicyCluster(t, test.spec, test.otherNamespace)
			facts := inject.FactsFor(cluster, namespace, inject.Options{ClientImage: "ghcr.io/peercache/peercache/client:test"})
			facts.DriverMissing, facts.Admission.Limits, facts.ByPolicy = test.driverMissing, test.limits, true
			object := &facts.Admission.Namespace
			if test.openShift {
				object.Annotations = map[string]string{inject.Users: "1000680000/10000"}
			}
			if test.level != "" {
				object.Labels = map[string]string{inject.PodSecurityLabel: test.level}
			}
			if test.openShift {
				describe(t, namespace, object)
			}
			cases := policyCases(t, c, cluster, facts, policyPods(t, i))
			installPolicy(t, cluster, test.driverMissing, test.limits)
			for name, pod := range cases {
				got := dryRun(t, c, pod.written)
				if reason := got.Annotations[names.AnnotationSkipReason]; strings.Contains(reason, reasonNotFlat()) {
					notFlat++
					if got.Annotations[names.AnnotationInjected] == "" && !apiequality.Semantic.DeepEqual(got.Spec, pod.plain.Spec) {
						t.Errorf("%s: the pod was left alone, but changed", name)
					}
					continue
				}
				if difference := compare(got, pod.want); difference != "" {
					t.Errorf("%s: %s", name, difference)
				}
				if difference := compare(dryRun(t, c, pod.want), pod.want); difference != "" {
					t.Errorf("%s, the second time: %s", name, difference)
				}
			}
			tried += len(cases)
		})
	}
	t.Logf("%d pods, %d of them with an extra config that only the webhook can complete", tried, notFlat)
	if notFlat == 0 || notFlat*20 > tried {
		t.Errorf("of %d pods, %d have an extra config that the policy cannot complete: want a few", tried, notFlat)
	}
}

type policyCase struct {
	written     *corev1.Pod // as the user writes it
	plain, want *corev1.Pod // answers of the API server without injection, and for the result of Inject
}

// policyCases creates pods in dry runs before the policy exists.
func policyCases(
	t *testing.T, c client.Client, cluster *v1alpha1.PeerCacheCluster, facts inject.Facts, pods map[string]*corev1.Pod,
) map[string]policyCase {
	t.Helper()
	cases := map[string]policyCase{}
	for name, pod := range pods {
		pod.Namespace, pod.GenerateName = facts.PodNamespace, ""
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[v1alpha1.LabelInject] = cluster.Name
		delete(pod.Annotations, v1alpha1.AnnotationClusterNamespace)
		if cluster.Namespace != facts.PodNamespace {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationClusterNamespace, cluster.Namespace)
		}
		plain, err := tryDryRun(t, c, pod)
		if err != nil {
			t.Logf("%s is no valid pod by itself: %v", name, err)
			continue
		}
		result := inject.Inject(fresh(plain), facts)
		if reason := inject.RefusesNamespace(t.Context(), c, cluster, facts.PodNamespace); reason != "" {
			result = inject.Skip(fresh(plain), reason)
		}
		cases[name] = policyCase{pod, plain, dryRun(t, c, result.Pod)}
	}
	if len(cases)*10 < len(pods)*9 {
		t.Fatalf("only %d of %d pods are valid", len(cases), len(pods))
	}
	return cases
}

// policyPods returns the pods of inject/testdata, in later rounds only some of them, and pods that the fuzzer builds.
func policyPods(t *testing.T, round int) map[string]*corev1.Pod {
	t.Helper()
	pods := map[string]*corev1.Pod{}
	for i, file := range injecttest.CaseFiles(t, "../testdata") {
		name := injecttest.CaseName(file)
		if ofDriver := strings.HasPrefix(name, "csi"); round > 0 && i%4 != round%4 && !ofDriver || strings.HasPrefix(name, "sidecar") || strings.HasPrefix(name, "embedded") {
			continue
		}
		pods[name] = injecttest.ReadPod(t, file)
		pods[name].Name = name
	}
	configs := []string{
		`{ "backend_name" : "peercache" }`, `{"tag":"a,\"socket\":1","list":[1,"}", true ]}`, `{"module_path":"mine", "x":-1.5e3}`,
		`{"nested":{"socket":"x"}}`, "@/etc/hicache.json", "  {\n}\t", `{"backend_name":null}`,
	}
	for seed := round * 30; seed < (round+1)*30; seed++ {
		choices := make([]byte, 60+seed%29)
		for i := range choices {
			choices[i] = byte(seed*37 + i*i*11 + i*seed)
		}
		name := fmt.Sprintf("built-%03d", seed)
		pods[name] = (&injecttest.PodMaker{Choices: choices, Config: configs[seed%len(configs)], Word: "--model-path"}).Pod()
		pods[name].Name = name
		makeValid(pods[name])
	}
	return pods
}

// makeValid corrects fields for which the API server refuses a pod of the fuzzer, and which the policy does not read.
func makeValid(pod *corev1.Pod) {
	names := map[string]bool{}
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		twice := names[v.Name]
		names[v.Name] = true
		return twice
	})
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].ConfigMap != nil {
			pod.Spec.Volumes[i].ConfigMap.Name = "x"
		}
	}
	pod.Spec.ResourceClaims, pod.Spec.HostNetwork = nil, false
	containers := map[string]bool{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			for containers[c.Name] {
				c.Name += "-2"
			}
			containers[c.Name] = true
			c.Image, c.Resources = "x", corev1.ResourceRequirements{}
			for j := range c.EnvFrom {
				c.EnvFrom[j].ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}
			}
			paths := map[string]bool{}
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
				twice := paths[m.MountPath]
				paths[m.MountPath] = true
				return twice
			})
			for _, m := range c.VolumeMounts {
				if !names[m.Name] {
					names[m.Name] = true
					pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
						Name: m.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
					})
				}
			}
		}
	}
}

func newPolicyCluster(
	t *testing.T, spec func(*v1alpha1.PeerCacheClusterSpec), otherNamespace bool,
) (*v1alpha1.PeerCacheCluster, string) {
	t.Helper()
	cluster := &v1alpha1.PeerCacheCluster{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace(t), Name: "kv"}}
	cluster.Spec.Memory.Pool = resource.MustParse("1Gi")
	if spec != nil {
		spec(&cluster.Spec)
	}
	if err := testenv.Client(t).Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace
	if otherNamespace {
		namespace = testenv.Namespace(t)
	}
	if cluster.Spec.Injection.NamespaceSelector != nil {
		label(t, namespace, `{"purpose":"inference","stage":"production","team":"a"}`)
	}
	return cluster, namespace
}

// describe adds labels and annotations to a namespace.
func describe(t *testing.T, namespace string, added *metav1.ObjectMeta) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": added.Labels, "annotations": added.Annotations}})
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := testenv.Client(t).Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", text)); err != nil {
		t.Fatal(err)
	}
}

func label(t *testing.T, namespace, labels string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":`+labels+`}}`))
	if err := testenv.Client(t).Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
}

// installPolicy creates the policy, and waits until the API server uses it.
func installPolicy(t *testing.T, cluster *v1alpha1.PeerCacheCluster, driverMissing bool, limits []corev1.LimitRangeItem) {
	t.Helper()
	c := testenv.Client(t)
	options := inject.Options{ClientImage: "ghcr.io/peercache/peercache/client:test"}
	facts := inject.FactsFor(cluster, cluster.Namespace, options)
	facts.DriverMissing, facts.Admission.Limits = driverMissing, limits
	policy, binding := For(facts, inject.FactsFor(cluster, "", options), cluster.Spec.Injection.NamespaceSelector)
	// With Ignore, a rule that fails would look like a pod that is left alone.
	policy.Spec.FailurePolicy = new(admissionv1.Fail)
	for _, object := range []client.Object{policy, binding} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Errorf("deleting %s: %v", object.GetName(), err)
			}
		})
	}
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "probe", Namespace: cluster.Namespace, Labels: map[string]string{v1alpha1.LabelInject: cluster.Name},
	}}
	probe.Spec.Containers = []corev1.Container{{Name: "probe", Image: "probe"}}
	testenv.Eventually(t, func() error {
		if dryRun(t, c, probe).Annotations[names.AnnotationSkipReason] == "" {
			return errors.New("the policy is not in effect")
		}
		return nil
	})
}

func dryRun(t *testing.T, c client.Client, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	answer, err := tryDryRun(t, c, pod)
	if err != nil {
		t.Fatalf("creating pod %s: %v", pod.Name, err)
	}
	return answer
}

func tryDryRun(t *testing.T, c client.Client, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	answer := fresh(pod)
	err := c.Create(t.Context(), answer, client.DryRunAll)
	return fresh(answer), err
}

// fresh returns a pod without the fields that the API server sets at creation.
func fresh(pod *corev1.Pod) *corev1.Pod {
	copied := pod.DeepCopy()
	copied.ObjectMeta = metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, Labels: copied.Labels, Annotations: copied.Annotations,
	}
	copied.Status = corev1.PodStatus{}
	return copied
}

func compare(got, want *corev1.Pod) string {
	if apiequality.Semantic.DeepEqual(got, want) {
		return ""
	}
	lines := func(pod *corev1.Pod) []string {
		text, err := yaml.Marshal(pod)
		if err != nil {
			return []string{err.Error()}
		}
		return strings.Split(string(text), "\n")
	}
	have, wanted := lines(got), lines(want)
	for i := range min(len(have), len(wanted)) {
		if have[i] != wanted[i] {
			return fmt.Sprintf("line %d is\n%s\nbut Inject gives\n%s", i, have[i], wanted[i])
		}
	}
	return "one of the pods ends early"
}
