// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/markdown"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/preflight"
)

// The pages are for people, who copy from them. So every manifest in them goes to a real API server, and the guides in
// docs/install say behind each PeerCacheCluster, in a block of language "plan", what the operator makes of it:
//
//	go test -tags envtest ./api/v1alpha1 -run TestPages -update     # writes these blocks anew

const (
	root        = "../../"
	planMark    = "```plan\n"
	clusterMark = "\nkind: PeerCacheCluster\n"
)

var update = flag.Bool("update", false, "write the blocks of language plan in docs/install anew")

// foreign are kinds whose definitions belong to other projects: they are only read.
var foreign = []string{"NetworkAttachmentDefinition", "Certificate", "PodMonitor", "KubeletConfiguration"}

// found is what a page holds besides its text.
type found struct {
	clusters  []*v1alpha1.PeerCacheCluster
	lines     []int // of the blocks that hold the clusters
	networks  map[types.NamespacedName]preflight.Network
	configs   map[types.NamespacedName]string // of the networks: what Multus gives to the CNI plug-in
	routed    int                             // clusters whose networks need routes to each other
	templates map[types.NamespacedName]bool
	pods      []*corev1.Pod
}

// TestPages: what the pages tell people to apply is accepted, resolves to what they say, and connects their pods.
func TestPages(t *testing.T) {
	files, err := markdown.Files(root, "README.md", "docs", "charts/peercache/README.md")
	if err != nil {
		t.Fatal(err)
	}
	clusters, routed := 0, 0
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, root), func(t *testing.T) {
			page, err := markdown.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			namespace := testenv.Namespace(t)
			f := found{
				networks: map[types.NamespacedName]preflight.Network{}, configs: map[types.NamespacedName]string{},
				templates: map[types.NamespacedName]bool{},
			}
			for _, block := range page.Blocks {
				if block.Language == "yaml" {
					f.apply(t, namespace, block)
				}
			}
			clusters, routed = clusters+len(f.clusters), routed+f.routed
			guide := filepath.Base(filepath.Dir(file)) == "install"
			if guide {
				f.expectPlans(t, namespace, file)
				f.expectLossless(t)
				f.borrowEngines(t, page)
			}
			f.expectConnected(t, namespace, guide)
		})
	}
	if clusters < 6 {
		t.Errorf("only %d PeerCacheClusters were found in %d pages", clusters, len(files))
	}
	if routed < 2 {
		t.Errorf("only %d PeerCacheClusters were found whose networks need routes to each other", routed)
	}
}

// apply gives the documents of a block to the API server, each as a user would.
func (f *found) apply(t *testing.T, namespace string, block markdown.Block) {
	t.Helper()
	c := testenv.Client(t)
	for document := range bytes.SplitSeq([]byte(block.Text), []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Errorf("line %d: %v", block.Line, err)
			continue
		}
		complete(object)
		kind := object.GetKind()
		switch {
		case kind == "" || kind == "Namespace":
			continue // a part of something, or nothing to check
		case slices.Contains(foreign, kind):
			f.remember(t, namespace, block, object)
			continue
		case testenv.Unserved(t, object):
			object.SetNamespace(namespace)
			f.remember(t, namespace, block, object)
			continue
		}
		fragment := object.GetName() == ""
		if fragment {
			object.SetName(fmt.Sprintf("line-%d", block.Line))
		}
		if kind != "DeviceClass" { // belongs to no namespace
			object.SetNamespace(namespace)
		}
		// Alternatives of one page may have one name.
		if err := c.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
			t.Errorf("line %d: %v", block.Line, err)
			continue
		}
		if kind == "PeerCacheCluster" {
			cluster := &v1alpha1.PeerCacheCluster{}
			convert(t, object, cluster)
			f.expectRoutes(t, namespace, cluster, block.Line)
		}
		if !fragment {
			f.remember(t, namespace, block, object)
		}
		if err := c.Delete(t.Context(), object); err != nil {
			t.Error(err)
		}
	}
}

// complete makes a PeerCacheCluster of a part of one: pages often show no more than some fields of its spec.
func complete(object *unstructured.Unstructured) {
	if _, has := object.Object["spec"]; !has || len(object.Object) != 1 {
		return
	}
	object.SetAPIVersion("peercache.io/v1alpha1")
	object.SetKind("PeerCacheCluster")
	if _, has, _ := unstructured.NestedMap(object.Object, "spec", "memory"); !has {
		_ = unstructured.SetNestedField(object.Object, "1Gi", "spec", "memory", "pool")
	}
}

// remember notes what is looked at later.
func (f *found) remember(t *testing.T, namespace string, block markdown.Block, object *unstructured.Unstructured) {
	t.Helper()
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	if name.Namespace == "" {
		name.Namespace = namespace
	}
	switch object.GetKind() {
	case "PeerCacheCluster":
		cluster := &v1alpha1.PeerCacheCluster{}
		convert(t, object, cluster)
		f.clusters, f.lines = append(f.clusters, cluster), append(f.lines, block.Line)
	case "NetworkAttachmentDefinition":
		config, _, _ := unstructured.NestedString(object.Object, "spec", "config")
		if !json.Valid([]byte(config)) {
			t.Errorf("line %d: spec.config of network %s is no JSON: %s", block.Line, name, config)
		}
		f.configs[name] = config
		f.networks[name] = preflight.Network{Resource: object.GetAnnotations()[plan.NetworkResource]}
	case "ResourceClaimTemplate":
		f.templates[name] = true
	case "Pod":
		pod := &corev1.Pod{}
		convert(t, object, pod)
		f.pods = append(f.pods, pod)
	case "Deployment":
		deployment := &appsv1.Deployment{}
		convert(t, object, deployment)
		template := deployment.Spec.Template
		f.pods = append(f.pods, &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
	}
}

func convert(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		t.Fatal(err)
	}
}

// expectPlans compares what the operator makes of each PeerCacheCluster with the block of language plan behind it.
func (f *found) expectPlans(t *testing.T, namespace, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, at := string(content), 0 // where the block of the next cluster is looked for
	for i, cluster := range f.clusters {
		desired, err := plan.For(cluster, plan.Facts{DataplaneImage: "dataplane"})
		if err != nil {
			t.Errorf("line %d: %v", f.lines[i], err)
			continue
		}
		f.expectAvailable(t, cluster, desired, f.lines[i])
		at += strings.Index(text[at:], clusterMark) + len(clusterMark)
		begin, next := strings.Index(text[at:], planMark), strings.Index(text[at:], clusterMark)
		if begin < 0 || next >= 0 && next < begin {
			t.Errorf("line %d: no block of language plan says what the operator makes of it", f.lines[i])
			continue
		}
		begin += at + len(planMark)
		end := begin + strings.Index(text[begin:], "```\n")
		want := strings.ReplaceAll(describe(desired), namespace, "NAMESPACE")
		switch {
		case *update:
			text = text[:begin] + want + text[end:]
		case text[begin:end] != want:
			t.Errorf("line %d: the page says\n%s\nand the operator makes\n%s", f.lines[i], text[begin:end], want)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// expectAvailable looks with the operator's eyes: networks and templates of the page are there, and machines that have
// what is requested.
func (f *found) expectAvailable(t *testing.T, cluster *v1alpha1.PeerCacheCluster, desired *plan.Desired, line int) {
	t.Helper()
	facts := preflight.Facts{Multus: true, DRA: true, Networks: maps.Clone(f.networks), Templates: f.templates}
	for name, network := range desired.Networks() {
		facts.Networks[name] = preflight.Network{Resource: network.GetAnnotations()[plan.NetworkResource]}
	}
	machine := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine", Labels: map[string]string{}}}
	machine.Status.Allocatable = corev1.ResourceList{}
	for _, daemonSet := range desired.DaemonSets {
		maps.Copy(machine.Labels, daemonSet.Spec.Template.Spec.NodeSelector)
		for name, quantity := range daemonSet.Spec.Template.Spec.Containers[0].Resources.Requests {
			sum := machine.Status.Allocatable[name]
			sum.Add(quantity)
			machine.Status.Allocatable[name] = sum
		}
	}
	facts.Machines = []corev1.Node{machine}
	for _, condition := range preflight.Check(cluster, desired, facts).Conditions {
		if condition.Status != metav1.ConditionTrue {
			t.Errorf("line %d: %s is %s: %s", line, condition.Type, condition.Status, condition.Message)
		}
	}
}

// describe is what a block of language plan says.
func describe(desired *plan.Desired) string {
	var text strings.Builder
	for i, daemonSet := range desired.DaemonSets {
		pod := daemonSet.Spec.Template
		node := pod.Spec.Containers[0]
		row := func(name, value string) {
			if value != "" {
				fmt.Fprintf(&text, "  %-10s %s\n", name, value)
			}
		}
		fmt.Fprintf(&text, "DaemonSet %s\n", daemonSet.Name)
		var rails []string
		for _, rail := range desired.Groups[i].Rails {
			rails = append(rails, rail.Name)
		}
		row("rails", strings.Join(rails, ", "))
		row("transport", environment(node, "PEERCACHE_TRANSPORT"))
		row("numa-node", environment(node, "PEERCACHE_NUMA_NODE"))
		row("requests", listed(node.Resources.Requests))
		row("networks", networksOf(pod.Annotations[plan.MultusNetworks]))
		var claims []string
		for _, claim := range pod.Spec.ResourceClaims {
			claims = append(claims, *claim.ResourceClaimTemplateName)
		}
		row("claims", strings.Join(claims, ", "))
		row("runs as", privileges(pod.Spec, node))
	}
	for _, object := range desired.Extras {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		if kind == "NetworkPolicy" { // like Services and Secrets, whatever the manifest says
			continue
		}
		fmt.Fprintf(&text, "%s %s\n", kind, object.GetName())
	}
	return text.String()
}

func environment(container corev1.Container, name string) string {
	for _, variable := range container.Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	return ""
}

func listed(requests corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		quantity := requests[name]
		parts = append(parts, string(name)+" "+quantity.String())
	}
	return strings.Join(parts, ", ")
}

func networksOf(annotation string) string {
	var selections []plan.NetworkSelection
	_ = json.Unmarshal([]byte(annotation), &selections) // "" where there are none
	var names []string
	for _, s := range selections {
		names = append(names, strings.TrimPrefix(s.Namespace+"/"+s.Name, "/"))
	}
	return strings.Join(names, ", ")
}

func privileges(pod corev1.PodSpec, node corev1.Container) string {
	security := node.SecurityContext
	text := fmt.Sprintf("user %d", *security.RunAsUser)
	if *security.RunAsUser == 0 {
		text = "root"
	}
	switch {
	case security.Privileged != nil && *security.Privileged:
		text += ", privileged"
	case len(security.Capabilities.Add) > 0:
		text += fmt.Sprintf(" with %s", security.Capabilities.Add[0])
	default:
		text += ", no capability"
	}
	if pod.HostNetwork {
		text += ", network of the machine"
	}
	return text
}

// borrowEngines adds the SGLang pods of the guide to which a guide without pods sends its readers.
func (f *found) borrowEngines(t *testing.T, page markdown.Page) {
	t.Helper()
	const lender, section = "tcp.md", "#4-connect-sglang"
	if len(f.pods) > 0 || !slices.ContainsFunc(page.Links, func(l markdown.Link) bool { return l.Target == lender+section }) {
		return
	}
	lent, err := markdown.Read(filepath.Join(filepath.Dir(page.File), lender))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range lent.Blocks {
		for document := range strings.SplitSeq(block.Text, "\n---\n") {
			deployment := appsv1.Deployment{}
			if block.Language != "yaml" || yaml.Unmarshal([]byte(document), &deployment) != nil || deployment.Kind != "Deployment" {
				continue
			}
			template := deployment.Spec.Template
			f.pods = append(f.pods, &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
		}
	}
}

// expectConnected: SGLang pods of a page that ask for a cluster of the page are connected to it.
func (f *found) expectConnected(t *testing.T, namespace string, guide bool) {
	t.Helper()
	connected := 0
	for _, pod := range f.pods {
		name := pod.Labels[v1alpha1.LabelInject]
		if name == "" {
			continue
		}
		i := slices.IndexFunc(f.clusters, func(c *v1alpha1.PeerCacheCluster) bool { return c.Name == name })
		if i < 0 {
			t.Errorf("a pod asks for PeerCacheCluster %s, which the page does not have", name)
			continue
		}
		result := inject.Inject(pod, inject.FactsFor(f.clusters[i], namespace, inject.Options{ClientImage: "client"}))
		if !result.Injected || result.SkipReason != "" {
			t.Errorf("a pod that asks for %s is left alone: %s", name, result.SkipReason)
		}
		connected++
	}
	if guide && len(f.clusters) > 0 && connected == 0 {
		t.Error("the guide has no SGLang pod")
	}
}
