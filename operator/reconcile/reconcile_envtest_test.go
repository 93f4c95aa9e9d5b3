// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package reconcile

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
)

func hostRail(name, group string) v1alpha1.Rail {
	return v1alpha1.Rail{Name: name, Group: group, Attachment: v1alpha1.AttachmentHostNetwork, HostNetwork: &v1alpha1.HostDevice{Device: v1alpha1.DeviceName("mlx5_" + name)}}
}

func sharedRail(name, group string) v1alpha1.Rail {
	return v1alpha1.Rail{Name: name, Group: group, Attachment: v1alpha1.AttachmentSharedDevicePlugin, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "rdma/x"}}
}

func TestFirstPassCreatesEverything(t *testing.T) {
	b := newBench(t)
	cluster := b.cluster()
	b.pass()
	for _, object := range []struct {
		name string
		into client.Object
	}{
		{"demo-node", &corev1.ServiceAccount{}},
		{"demo-config", &corev1.ConfigMap{}},
		{"demo-discovery", &corev1.Service{}},
		{"demo-default", &appsv1.DaemonSet{}},
	} {
		b.read(object.name, object.into)
		if !metav1.IsControlledBy(object.into, cluster) {
			t.Errorf("%T %s would outlive the cluster: %+v", object.into, object.name, object.into.GetOwnerReferences())
		}
		managers := object.into.GetManagedFields()
		if len(managers) != 1 || managers[0].Manager != "peercache-operator" ||
			managers[0].Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("%T %s is not applied by the operator alone: %+v", object.into, object.name, managers)
		}
	}
	if len(b.get().Finalizers) != 0 {
		t.Error("the cluster has a finalizer: it could not be deleted while the operator is away")
	}
}

func template(patch string) *v1alpha1.PodTemplate {
	return &v1alpha1.PodTemplate{
		Metadata: v1alpha1.PodTemplateMetadata{Labels: map[string]string{"team": "a"}},
		Spec:     &runtime.RawExtension{Raw: []byte(patch)},
	}
}

// TestPodTemplate checks that the merged template is stored, and that fields removed from podTemplate are removed.
func TestPodTemplate(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.PodTemplate = template(`{"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}], ` +
			`"containers": [{"name": "peercached", "env": [{"name": "TZ", "value": "UTC"}]}]}`)
	})
	b.pass()
	stored := b.daemonSet("default").Spec.Template
	env := len(stored.Spec.Containers[0].Env)
	if stored.Labels["team"] != "a" || len(stored.Spec.HostAliases) != 1 || stored.Spec.Containers[0].Env[env-1].Name != "TZ" &&
		stored.Spec.Containers[0].Env[0].Name != "TZ" {
		t.Errorf("the template is %+v", stored)
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.PodTemplate = nil })
	b.pass()
	stored = b.daemonSet("default").Spec.Template
	if stored.Labels["team"] != "" || len(stored.Spec.HostAliases) != 0 || len(stored.Spec.Containers[0].Env) != env-1 {
		t.Errorf("podTemplate was removed, but the template is %+v", stored)
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.PodTemplate = template(`{"hostNetwrk": true}`) })
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "PodTemplateInvalid", `unknown field "hostNetwrk"`)
}

func TestNoWritesWithoutChanges(t *testing.T) {
	rails := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Transport = v1alpha1.TransportRDMA
		s.Rails = []v1alpha1.Rail{hostRail("a", "g"), sharedRail("b", "h"), sharedRail("c", "h")}
		s.Nodes.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
		s.Nodes.Selector = map[string]string{"a": "b"}
		s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		s.PodTemplate = template(`{"priorityClassName": "x", "tolerations": [{"key": "k"}], "topologySpreadConstraints": [` +
			`{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}], "containers": [{"name": "peercached", ` +
			`"resources": {"limits": {"cpu": "1000m", "memory": "2048Mi"}}, "env": [{"name": "TZ", "value": "UTC"}]}, ` +
			`{"name": "sidecar", "image": "tool:1"}]}`)
		s.Memory.HugePages = v1alpha1.HugePages2Mi
	}
	pools := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Transport = v1alpha1.TransportAuto
		s.Rails = []v1alpha1.Rail{
			{Name: "a", Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: "pair", Request: "x"}},
			{Name: "b", Attachment: v1alpha1.AttachmentDRA, DRA: &v1alpha1.ClaimedDevice{ResourceClaimTemplate: "pair", Request: "y"}},
			{Name: "c", Attachment: v1alpha1.AttachmentSRIOV, SRIOV: &v1alpha1.VirtualFunction{ResourceName: "nvidia.com/c"}, Network: &v1alpha1.RailNetwork{Name: "default/c", IPs: []string{"10.9.0.2/24"}, MAC: "02:00:00:00:00:01"}},
		}
		s.NodePools = []v1alpha1.NodePool{
			{Name: "gpu", Selector: map[string]string{"gpu": "yes"}, Rails: []string{"a", "b", "c"},
				Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}},
			{Name: "disk", Selector: map[string]string{"disk": "yes"},
				Memory: &v1alpha1.MemorySpec{Pool: resource.MustParse("1.5Gi")}, Resources: &v1alpha1.ResourcesSpec{}},
		}
	}
	drives := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Disk = &v1alpha1.DiskSpec{HostPath: []v1alpha1.DiskFolder{"/mnt/b", "/mnt/a"}, Size: resource.MustParse("1.5Gi")}
		s.NodePools = []v1alpha1.NodePool{
			{Name: "folders", Selector: map[string]string{"disk": "a"}},
			{Name: "volumes", Selector: map[string]string{"disk": "b"}, Disk: &v1alpha1.DiskSpec{
				VolumeClaim: &v1alpha1.DiskClaim{StorageClassName: "local", Count: 2}, Size: resource.MustParse("2T")}},
		}
	}
	unusualQuantities := func(s *v1alpha1.PeerCacheClusterSpec) { // quantities that the API server prints differently
		s.Memory.Pool = resource.MustParse("1.5Gi")
		s.Resources.MemoryOverhead = resource.MustParse("1024Mi")
		s.Resources.CPU = resource.MustParse("2")
	}
	ports := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.PodTemplate = template(`{"containers": [{"name": "peercached", "ports": [{"containerPort": 7001}, {"containerPort": 7002}]}, ` +
			`{"name": "sidecar", "image": "tool:1", "ports": [{"containerPort": 8002}, {"containerPort": 8001, "protocol": "UDP"}, ` +
			`{"containerPort": 8001}]}], "initContainers": [{"name": "proxy", "image": "tool:1", "restartPolicy": "Always", ` +
			`"ports": [{"containerPort": 9001}, {"containerPort": 9002, "hostPort": 9003}]}]}`)
	}
	// The spec has every kind of field that the API server defaults, prints differently or merges by keys.
	whole := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.PodTemplate = template(`{"hostAliases": [{"ip": "10.0.0.2", "hostnames": ["b"]}, {"ip": "10.0.0.1", "hostnames": ["a"]}],
			"topologySpreadConstraints": [
				{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"a": "b"}}},
				{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
			"dnsConfig": {"options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}, "securityContext": {"fsGroup": 7},
			"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
				{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
			"volumes": [
				{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
					"resources": {"requests": {"storage": "1024Mi"}}}}}},
				{"name": "block", "persistentVolumeClaim": {"claimName": "block"}},
				{"name": "mixed", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}},
					{"configMap": {"name": "c"}}, {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}},
				{"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "0.5Gi"}},
				{"name": "iscsi", "iscsi": {"targetPortal": "a:1", "iqn": "iqn.2001-04.com.example:storage", "lun": 0}}],
			"containers": [{"name": "sidecar", "image": "tool", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
				"env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "EMPTY", "value": ""},
					{"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
				"volumeDevices": [{"name": "block", "devicePath": "/dev/b"}], "volumeMounts": [{"name": "scratch", "mountPath": "/b"},
					{"name": "memory", "mountPath": "/a"}],
				"livenessProbe": {"httpGet": {"port": 80}}, "startupProbe": {"grpc": {"port": 81}},
				"readinessProbe": {"exec": {"command": ["true"]}}, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
				"securityContext": {"capabilities": {"drop": ["ALL"]}}}]}`)
	}
	for name, change := range map[string]func(*v1alpha1.PeerCacheClusterSpec){
		"defaults": func(*v1alpha1.PeerCacheClusterSpec) {}, "rails": rails, "pools": pools, "drives": drives, "odd quantities": unusualQuantities,
		"ports without names": ports, "whole pods": whole,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "pools" {
				testenv.Since(t, 34, "resource claims")
			}
			b := newBench(t)
			b.cluster(change)
			if first := b.pass(); len(first) < 5 {
				t.Fatalf("the counter misses writes: %q", first)
			}
			if told := b.events(); slices.ContainsFunc(told, func(event string) bool { return strings.Contains(event, "Altered") }) {
				t.Errorf("the API server is said to alter objects: %q", told)
			}
			for range 2 {
				if again := b.pass(); len(again) != 0 {
					t.Errorf("nothing changed, but the operator wrote %q", again)
				}
			}
		})
	}
}

func TestNoWritesOnceSettled(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	b.startPods("default", true, true)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "2/2")
	if again := b.pass(); len(again) != 0 {
		t.Errorf("nothing changed, but the operator wrote %q", again)
	}
}

func TestDriftIsRepaired(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	b.events()

	daemonSet := b.daemonSet("default")
	daemonSet.Spec.Template.Spec.Containers[0].Image = "evil:1"
	b.must(b.Update(t.Context(), daemonSet))
	config := &corev1.ConfigMap{}
	b.read("demo-config", config)
	config.Data["peercached.toml"] = "pool-size = 1"
	b.must(b.Update(t.Context(), config))
	service := &corev1.Service{}
	b.read("demo-discovery", service)
	b.must(b.Delete(t.Context(), service))

	b.pass()
	if image := b.daemonSet("default").Spec.Template.Spec.Containers[0].Image; image != "dataplane:1" {
		t.Errorf("the image is still %s", image)
	}
	b.read("demo-config", config)
	if !strings.Contains(config.Data["peercached.toml"], `peer-port = 31998`) {
		t.Errorf("the configuration is still %q", config.Data)
	}
	b.read("demo-discovery", service)
	recorded := strings.Join(b.events(), "\n")
	if !strings.Contains(recorded, "Repaired") || !strings.Contains(recorded, "containers[peercached].image") {
		t.Errorf("the user is not told: %s", recorded)
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("repairing does not come to an end: %q", again)
	}
}

func TestOthersMayAdd(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	daemonSet := b.daemonSet("default")
	daemonSet.Annotations["example.com/note"] = "mine"
	daemonSet.Spec.Template.Spec.Volumes = append(daemonSet.Spec.Template.Spec.Volumes, corev1.Volume{Name: "extra"})
	b.must(b.Update(t.Context(), daemonSet))
	if wrote := b.pass(); slices.ContainsFunc(wrote, func(w string) bool { return strings.Contains(w, "daemonsets") }) {
		t.Errorf("the operator fights about fields that are not its own: %q", wrote)
	}
	if b.daemonSet("default").Annotations["example.com/note"] != "mine" {
		t.Error("a note of somebody else is lost")
	}
}

// TestOthersMayAddToListsWithKeys: an element of a list with keys belongs to whoever added it.
func TestOthersMayAddToListsWithKeys(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.PodTemplate = template(`{"hostAliases": [{"ip": "10.0.0.2", "hostnames": ["b"]}], "topologySpreadConstraints": [` +
			`{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}`)
	})
	b.pass()
	daemonSet := b.daemonSet("default")
	pod := &daemonSet.Spec.Template.Spec
	pod.HostAliases = append([]corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"a"}}}, pod.HostAliases...)
	pod.TopologySpreadConstraints = append(pod.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
		MaxSkew: 3, TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway})
	pod.Containers[0].Ports = append([]corev1.ContainerPort{{ContainerPort: 7001}}, pod.Containers[0].Ports...)
	b.must(b.Update(t.Context(), daemonSet))
	for range 2 {
		if wrote := b.pass(); slices.ContainsFunc(wrote, func(w string) bool { return strings.Contains(w, "daemonsets") }) {
			t.Errorf("the operator fights about elements that are not its own: %q", wrote)
		}
	}
}

func TestUnwantedFieldsAreRemoved(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes.Selector = map[string]string{"a": "1", "b": "2"}
		s.Nodes.PriorityClassName = "high"
	})
	b.pass()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes.Selector = map[string]string{"a": "1"}
		s.Nodes.PriorityClassName = ""
	})
	b.pass()
	pod := b.daemonSet("default").Spec.Template.Spec
	if _, left := pod.NodeSelector["b"]; left || pod.PriorityClassName != "" {
		t.Errorf("selector %v and priority %q are left over", pod.NodeSelector, pod.PriorityClassName)
	}
}

// TestChangesCauseEvents checks that each object that a change of the spec changes causes one event, and other objects cause
// none.
func TestChangesCauseEvents(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Nodes.Selector = map[string]string{"a": "1", "b": "2"}
		s.PodTemplate = template(`{"containers": [{"name": "peercached", "env": [{"name": "TOKEN", "value": "hunter1"}]}]}`)
	})
	told := func() (changes []string) {
		b.pass()
		for _, event := range b.events() {
			if change, is := strings.CutPrefix(event, "Normal Changed "); is {
				changes = append(changes, strings.ReplaceAll(change, b.namespace+"/", ""))
			}
		}
		return changes
	}
	expect := func(want ...string) {
		t.Helper()
		if changes := told(); !slices.Equal(changes, want) {
			t.Errorf("told is %q, want %q", changes, want)
		}
		if again := told(); again != nil {
			t.Errorf("nothing changed, but told is %q", again)
		}
	}
	expect()
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Resources.MemoryOverhead = resource.MustParse("2Gi") })
	expect("DaemonSet demo-default changes: spec.template.spec.containers[peercached].resources.limits.memory 1543Mi -> 3079Mi")
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.LeaseMilliseconds = 2000 })
	if changes := told(); len(changes) != 2 || changes[0] != "ConfigMap demo-config changes: data.peercached.toml lease-ms = 1000 -> lease-ms = 2000" ||
		!strings.HasPrefix(changes[1], "DaemonSet demo-default changes: spec.template.metadata.annotations.peercache.io/config-hash ") {
		t.Errorf("told is %q", changes)
	}
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { delete(s.Nodes.Selector, "b") })
	expect("DaemonSet demo-default changes: spec.template.spec.nodeSelector.b 2 -> (none)")
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.PodTemplate = template(`{"containers": [{"name": "peercached", "env": [{"name": "TOKEN", "value": "hunter2"}]}]}`)
	})
	expect("DaemonSet demo-default changes: spec.template.spec.containers[peercached].env[TOKEN].value")
}

func TestImageAndConfigurationRestartNodes(t *testing.T) {
	b := newBench(t)
	b.cluster()
	b.pass()
	first := b.daemonSet("default")
	b.setCounts("default", 2, 2, 2)

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Image = "dataplane:2" })
	b.pass()
	second := b.daemonSet("default")
	if second.Spec.Template.Spec.Containers[0].Image != "dataplane:2" || second.Generation == first.Generation {
		t.Errorf("the image is %s at generation %d", second.Spec.Template.Spec.Containers[0].Image, second.Generation)
	}
	if image := b.get().Status.Image; image != "dataplane:2" {
		t.Errorf("status.image is %s", image)
	}
	b.condition("Progressing", metav1.ConditionTrue, "WaitingForController", "")
	b.condition("Ready", metav1.ConditionFalse, "WaitingForController", "")

	b.setCounts("default", 2, 1, 2)
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Timing.LeaseMilliseconds = 2000 })
	b.pass()
	third := b.daemonSet("default")
	if third.Spec.Template.Annotations[v1alpha1.AnnotationConfigHash] ==
		second.Spec.Template.Annotations[v1alpha1.AnnotationConfigHash] {
		t.Error("a changed configuration does not restart the members")
	}
	b.setCounts("default", 2, 1, 2)
	b.pass()
	b.condition("Ready", metav1.ConditionFalse, "RollingOut", "1 of 2")
	b.setCounts("default", 2, 2, 2)
	b.pass()
	b.condition("Ready", metav1.ConditionTrue, "AllMembersReady", "2/2")
	b.condition("Progressing", metav1.ConditionFalse, "Settled", "")
}

func TestRemovedGroupsArePruned(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Rails = []v1alpha1.Rail{sharedRail("a", "one"), sharedRail("b", "two")}
	})
	b.pass()
	b.setCounts("one", 2, 2, 2)
	b.setCounts("two", 2, 2, 1)
	stranger := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "demo-stranger",
			Labels: map[string]string{v1alpha1.LabelCluster: "demo"}},
		Spec: *b.daemonSet("one").Spec.DeepCopy(),
	}
	b.must(b.Create(t.Context(), stranger))
	b.pass()
	status := b.get().Status
	if len(status.Groups) != 2 || status.Groups[1] != (v1alpha1.GroupStatus{Name: "two", Desired: 2, Ready: 1, Updated: 2}) ||
		status.Members != "3/4" || status.DesiredMembers != 4 || status.ReadyMembers != 3 || status.UpdatedMembers != 4 ||
		status.Capacity.String() != "3Gi" {
		t.Errorf("status is %+v", status)
	}

	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.Rails, s.Image = s.Rails[:1], "dataplane:2" })
	b.pass()
	b.condition("ConfigAccepted", metav1.ConditionFalse, "LossNotConfirmed", "peercache.io/confirm-loss=two --overwrite")
	b.daemonSet("two")
	if image := b.daemonSet("one").Spec.Template.Spec.Containers[0].Image; image == "dataplane:2" {
		t.Error("half of a change that is not confirmed is in effect")
	}
	if again := b.pass(); len(again) != 0 {
		t.Errorf("waiting for the confirmation writes %q", again)
	}
	b.confirmLoss("two")
	b.events()
	b.pass()
	err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "demo-two"}, &appsv1.DaemonSet{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("DaemonSet demo-two is still there: %v", err)
	}
	b.daemonSet("one")
	b.read("demo-stranger", stranger)
	if status := b.get().Status; len(status.Groups) != 1 || status.Members != "2/2" {
		t.Errorf("status still counts the group: %+v", status)
	}
	if recorded := strings.Join(b.events(), "\n"); !strings.Contains(recorded, "GroupRemoved") {
		t.Errorf("the user is not told: %s", recorded)
	}
}

// confirmLoss sets the annotation of a user who gives up the pages of some groups.
func (b *bench) confirmLoss(groups string) {
	b.Helper()
	cluster := b.get()
	cluster.Annotations = map[string]string{v1alpha1.AnnotationConfirmLoss: groups}
	b.must(b.Update(b.Context(), cluster))
}

func TestPoolsAreCountedSeparately(t *testing.T) {
	b := newBench(t)
	b.cluster(func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Rails = []v1alpha1.Rail{sharedRail("a", "fast")}
		s.NodePools = []v1alpha1.NodePool{
			{Name: "gpu", Selector: map[string]string{"gpu": "yes"}, Rails: []string{"a"}},
			{Name: "disk", Selector: map[string]string{"disk": "yes"}},
		}
	})
	b.pass()
	b.setCounts("gpu-fast", 2, 2, 1)
	b.setCounts("disk-default", 1, 1, 1)
	b.pass()
	groups := b.get().Status.Groups
	want := []v1alpha1.GroupStatus{{Name: "disk-default", Desired: 1, Ready: 1, Updated: 1}, {Name: "gpu-fast", Desired: 2, Ready: 1, Updated: 2}}
	if !slices.Equal(groups, want) {
		t.Errorf("groups are %+v, want %+v", groups, want)
	}
	b.confirmLoss("disk-default")
	b.change(func(s *v1alpha1.PeerCacheClusterSpec) { s.NodePools = s.NodePools[:1] })
	b.pass()
	if groups := b.get().Status.Groups; len(groups) != 1 || groups[0].Name != "gpu-fast" {
		t.Errorf("groups are %+v after a pool was dropped", groups)
	}
}

func TestDeletedClusterIsLeftAlone(t *testing.T) {
	b := newBench(t)
	cluster := b.cluster()
	b.pass()
	b.must(b.Delete(t.Context(), cluster))
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("the cluster is gone, but the operator wrote %q", wrote)
	}
}

func TestClusterBeingDeletedIsLeftAlone(t *testing.T) {
	b := newBench(t)
	cluster := b.cluster()
	b.pass()
	b.must(b.Delete(t.Context(), cluster, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	daemonSet := b.daemonSet("default")
	b.must(b.Delete(t.Context(), daemonSet))
	if wrote := b.pass(); len(wrote) != 0 {
		t.Errorf("the garbage collector deletes, and the operator wrote %q", wrote)
	}
}
