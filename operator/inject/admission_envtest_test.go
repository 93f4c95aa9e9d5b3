// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package inject_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/webhooktest"
)

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func limitRange(item corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}
}

func quota(hard corev1.ResourceList, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	used := corev1.ResourceList{}
	for name := range hard {
		used[name] = resource.MustParse("0")
	}
	return &corev1.ResourceQuota{
		Spec: corev1.ResourceQuotaSpec{Hard: hard, Scopes: scopes}, Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used},
	}
}

func ofSidecar(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Mode = v1alpha1.InjectionSidecar }

func ofSidecarWithRails(s *v1alpha1.PeerCacheClusterSpec) {
	ofSidecar(s)
	s.Transport = v1alpha1.TransportRDMA
	s.Rails = []v1alpha1.Rail{{
		Name: "rail0", Attachment: v1alpha1.AttachmentSharedDevicePlugin, SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: "rdma/rail0"},
	}}
}

// crowdedNamespaces are namespaces that admit a pod, and would refuse it with what injection adds by itself.
var crowdedNamespaces = []struct {
	name    string
	cluster func(*v1alpha1.PeerCacheClusterSpec)
	enforce string // the level of Pod Security
	object  client.Object
	pod     func(*corev1.PodSpec)
	since   int // minor release of Kubernetes
	skipped string
	// added are the requests of the container that injection adds.
	added corev1.ResourceList
}{
	{
		name:   "a minimum above what the client's container needs",
		object: limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts("cpu", "250m", "memory", "256Mi")}),
		added:  amounts("cpu", "250m", "memory", "256Mi"),
	}, {
		name:   "a maximum below it",
		object: limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: amounts("memory", "100Mi")}),
		pod:    func(s *corev1.PodSpec) { take(s, amounts("cpu", "1", "memory", "100Mi")) },
		added:  amounts("cpu", "100m", "memory", "100Mi"),
	}, {
		name: "a ratio, and defaults for what no container states",
		object: limitRange(corev1.LimitRangeItem{
			Type: corev1.LimitTypeContainer, Max: amounts("ephemeral-storage", "2Gi"), MaxLimitRequestRatio: amounts("cpu", "1"),
		}),
		added: amounts("cpu", "100m", "memory", "128Mi", "ephemeral-storage", "2Gi"),
	}, {
		name:    "a minimum above the sidecar's cores",
		cluster: ofSidecar,
		object:  limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts("cpu", "2")}),
		added:   amounts("cpu", "2", "memory", "1543Mi"),
	}, {
		name:    "a maximum of pods that has no room for a sidecar",
		cluster: ofSidecar,
		object:  limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts("memory", "2Gi")}),
		skipped: "has request 2567Mi and limit 2567Mi of memory, and a LimitRange has max 2Gi",
	}, {
		name:    "resources of the pod that have no room for a sidecar",
		cluster: ofSidecar,
		pod: func(s *corev1.PodSpec) {
			// The API server gives the pod what its containers request of the rest, before the webhook sees it.
			s.Resources = &corev1.ResourceRequirements{Requests: amounts("memory", "2Gi"), Limits: amounts("memory", "2Gi")}
		},
		since:   34,
		skipped: "its containers request 9 of cpu, and the pod has 8 (spec.resources)",
	}, {
		name:    "a quota that has no room for a sidecar",
		cluster: ofSidecar,
		object:  quota(amounts("requests.memory", "2Gi")),
		skipped: "the pod takes 2567Mi of requests.memory, and ResourceQuota crowded has 2Gi, of which 0 are taken",
	}, {
		name:    "a quota of other pods",
		cluster: ofSidecar,
		object:  quota(amounts("requests.memory", "2Gi"), corev1.ResourceQuotaScopeTerminating),
		added:   amounts("cpu", "1", "memory", "1543Mi"),
	}, {
		name:    "a quota of pods that take anything, for one that takes nothing",
		object:  quota(amounts("pods", "0"), corev1.ResourceQuotaScopeNotBestEffort),
		pod:     func(s *corev1.PodSpec) { take(s, nil) },
		skipped: "ResourceQuota crowded has 0",
	}, {
		name:    "Pod Security, which forbids the hostPath",
		enforce: "baseline",
		skipped: `has Pod Security "baseline", and so no hostPath`,
	}, {
		name:    "Pod Security, which forbids to pin memory",
		enforce: "restricted",
		cluster: ofSidecarWithRails,
		skipped: `has Pod Security "restricted", and so not the capability IPC_LOCK`,
	}, {
		name:    "Pod Security, and nothing that it forbids",
		enforce: "restricted",
		cluster: ofSidecar,
		added:   amounts("cpu", "1", "memory", "1543Mi"),
	},
}

func take(s *corev1.PodSpec, list corev1.ResourceList) {
	s.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
}

// TestCrowdedNamespaces checks that the API server admits a pod with the label where it admits the pod without: either fits what
// injection adds, or the pod is left alone and says why.
func TestCrowdedNamespaces(t *testing.T) {
	webhooktest.Serve(t, clientImage)
	c := testenv.Client(t)
	for _, test := range crowdedNamespaces {
		t.Run(test.name, func(t *testing.T) {
			if test.since > 0 {
				testenv.Since(t, test.since, "resources of pods")
			}
			spec := v1alpha1.PeerCacheClusterSpec{}
			if test.cluster != nil {
				test.cluster(&spec)
			}
			namespace := newServingAs(t, spec)
			if test.enforce != "" {
				patch := fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, test.enforce)
				object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
				if err := c.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", patch)); err != nil {
					t.Fatal(err)
				}
			}
			crowd(t, c, namespace, test.object)
			pod := newRestrictedEngine(namespace)
			take(&pod.Spec, amounts("cpu", "8", "memory", "1Gi"))
			if test.pod != nil {
				test.pod(&pod.Spec)
			}
			plain := pod.DeepCopy()
			plain.Labels = nil
			// Both the API server and the webhook learn of a new LimitRange a moment later.
			testenv.Eventually(t, func() error {
				if err := c.Create(t.Context(), plain.DeepCopy(), client.DryRunAll); err != nil {
					return fmt.Errorf("without the label: %w", err)
				}
				labelled := pod.DeepCopy()
				if err := c.Create(t.Context(), labelled, client.DryRunAll); err != nil {
					return fmt.Errorf("admitted without the label, but with it: %w", err)
				}
				return asWanted(labelled, test.skipped, test.added)
			})
		})
	}
}

// crowd creates a namespace's LimitRange or ResourceQuota. No controller of quotas runs, so the quota's status is written here.
func crowd(t *testing.T, c client.Client, namespace string, object client.Object) {
	t.Helper()
	if object == nil {
		return
	}
	object, _ = object.DeepCopyObject().(client.Object)
	object.SetNamespace(namespace)
	object.SetName("crowded")
	full, isQuota := object.DeepCopyObject().(*corev1.ResourceQuota)
	create(t, c, object)
	if isQuota {
		full.ResourceVersion = object.GetResourceVersion()
		if err := c.Status().Update(t.Context(), full); err != nil {
			t.Fatal(err)
		}
	}
}

func asWanted(pod *corev1.Pod, skipped string, added corev1.ResourceList) error {
	reason := pod.Annotations[names.AnnotationSkipReason]
	if skipped != "" {
		if !strings.Contains(reason, skipped) || len(pod.Spec.InitContainers) > 0 {
			return fmt.Errorf("the reason is %q, want %q", reason, skipped)
		}
		return nil
	}
	last := len(pod.Spec.InitContainers) - 1
	if last < 0 {
		return fmt.Errorf("the pod was left alone: %q", reason)
	}
	have := pod.Spec.InitContainers[last].Resources
	for name, want := range added {
		request, limit := have.Requests[name], have.Limits[name]
		if request.Cmp(want) != 0 || limit.Cmp(want) != 0 {
			return fmt.Errorf("the added container has %v, want %s of %s", have, want.String(), name)
		}
	}
	return nil
}

// newRestrictedEngine is an engine that any namespace admits.
func newRestrictedEngine(namespace string) *corev1.Pod {
	pod := newEngine(namespace)
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	return pod
}
