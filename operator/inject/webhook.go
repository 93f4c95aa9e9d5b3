// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// +kubebuilder:rbac:groups=peercache.io,resources=peercacheclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Path is where the webhook server serves injection.
const Path = "/mutate-v1-pod"

// answerWithin leaves time for the answer within the 5 s that the API server waits.
const answerWithin = 3 * time.Second

// Options configure the webhook.
type Options struct {
	// ClientImage is used by clusters that name no client image.
	ClientImage string
	// Plan is what nodes inside SGLang pods depend on besides their cluster.
	Plan plan.Facts
}

// SetupWithManager serves injection on the manager's webhook server.
func SetupWithManager(mgr ctrl.Manager, options Options) error {
	if options.ClientImage == "" {
		return errors.New("setting up injection: the client image is empty: pass --client-image or set PEERCACHE_CLIENT_IMAGE")
	}
	mgr.GetWebhookServer().Register(Path, &webhook.Admission{Handler: &handler{
		options: options,
		cached:  mgr.GetClient(),
		live:    mgr.GetAPIReader(),
		events:  mgr.GetEventRecorder("peercache-inject"),
	}})
	return nil
}

// handler answers admission requests for pods. It admits every pod, whatever goes wrong.
type handler struct {
	options Options
	cached  client.Reader
	live    client.Reader
	events  events.EventRecorder
}

// Handle implements admission.Handler.
func (h *handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()

	pod := &corev1.Pod{}
	if err := json.Unmarshal(req.Object.Raw, pod); err != nil { // a decoder would read it twice, for its kind first
		injections.WithLabelValues("unreadable", "none").Inc()
		return admission.Allowed("").WithWarnings(fmt.Sprintf("peercache: the pod was not connected: decoding it: %v", err))
	}
	result, cluster := h.inject(ctx, req.Namespace, pod)
	if cluster != nil && cluster.Spec.Injection.By == v1alpha1.InjectionByPolicy {
		return admission.Allowed("") // the API server has done it, or left it to be reported as missed
	}
	ctrl.LoggerFrom(ctx).Info("answered", "namespace", req.Namespace, "pod", podName(pod),
		"cluster", pod.Labels[v1alpha1.LabelInject], "injected", result.Injected,
		"skipReason", result.SkipReason, "note", result.Note)
	if req.DryRun != nil && *req.DryRun {
		return respond(pod, result)
	}
	count(result, cluster != nil)
	if cluster != nil && result.SkipReason != "" {
		h.events.Eventf(cluster, nil, corev1.EventTypeWarning, "PodNotConnected", "Inject",
			"pod %s/%s: %s", req.Namespace, podName(pod), result.SkipReason)
	}
	return respond(pod, result)
}

// inject gathers the facts and applies them. The cluster is nil where it is not known.
func (h *handler) inject(ctx context.Context, namespace string, pod *corev1.Pod) (Result, *v1alpha1.PeerCacheCluster) {
	key := ClusterOf(pod, namespace)
	if key.Name == "" {
		return Skip(pod, "label "+v1alpha1.LabelInject+" is empty: write the name of a PeerCacheCluster"), nil
	}
	cluster, err := h.cluster(ctx, key)
	switch {
	case apierrors.IsNotFound(err):
		return Skip(pod, "PeerCacheCluster "+key.String()+" does not exist: create it first, correct the label "+
			v1alpha1.LabelInject+", or name its namespace in the annotation "+v1alpha1.AnnotationClusterNamespace), nil
	case err != nil:
		return Skip(pod, fmt.Sprintf("reading PeerCacheCluster %s failed: %v: create the pod again later", key, err)), nil
	case !cluster.DeletionTimestamp.IsZero():
		return Skip(pod, reasonDeleting(key.String())), cluster
	}
	if reason := RefusesNamespace(ctx, h.live, cluster, namespace); reason != "" {
		return Skip(pod, reason), cluster
	}
	facts, err := Gather(ctx, h.cached, cluster, namespace, h.options)
	if err != nil {
		return Skip(pod, err.Error()+": create the pod again later"), cluster
	}
	return Inject(pod, facts), cluster
}

// cluster reads from the cache, and past it for a cluster that was created just before its pods.
func (h *handler) cluster(ctx context.Context, key client.ObjectKey) (*v1alpha1.PeerCacheCluster, error) {
	cluster := &v1alpha1.PeerCacheCluster{}
	err := h.cached.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		err = h.live.Get(ctx, key, cluster)
	}
	return cluster, err
}

// respond turns a result into a patch. Both sides of the comparison went through our types, so fields of the
// pod that these types do not know yet are in neither and stay as they are.
func respond(before *corev1.Pod, result Result) admission.Response {
	patches, err := diff(before, result.Pod)
	if err != nil {
		return admission.Allowed("").WithWarnings(fmt.Sprintf("peercache: the pod was not connected: %v", err))
	}
	response := admission.Patched("", patches...)
	if result.SkipReason != "" {
		response = response.WithWarnings("peercache: " + result.SkipReason)
	}
	if result.Note != "" {
		response = response.WithWarnings("peercache: " + result.Note)
	}
	return response
}

// podName is the name that a pod has, or will have without its random ending.
func podName(pod *corev1.Pod) string {
	if pod.Name != "" {
		return pod.Name
	}
	return pod.GenerateName + "*"
}
