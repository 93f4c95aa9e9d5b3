// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/json"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/reasons"
	"github.com/peercache/peercache/operator/plan"
)

// +kubebuilder:rbac:groups=peercache.io,resources=peercacheclusters,verbs=get;list;watch

// Path is where the webhook server serves injection.
const Path = "/mutate-v1-pod"

// handleTimeout leaves time to answer within the 5 s that the API server waits.
const handleTimeout = 3 * time.Second

// Options configure the webhook.
type Options struct {
	// ClientImage is the image for clusters that name none.
	ClientImage string
	// Plan has the facts for nodes inside SGLang pods that do not come from the cluster.
	Plan plan.Facts
	// Namespaces are those that the operator watches; none means all. With some it reads nothing that belongs to no namespace, but its
	// own webhook configuration.
	Namespaces []string
	// Askers are those whom the webhook answers.
	Askers Askers
}

// Namespaced is true where the operator works in some namespaces only, and may read nothing that belongs to none.
func (o Options) Namespaced() bool { return len(o.Namespaces) > 0 }

// Watches is true for the namespaces that the operator watches.
func (o Options) Watches(namespace string) bool {
	return !o.Namespaced() || slices.Contains(o.Namespaces, namespace)
}

// SetupWithManager serves injection on the manager's webhook server. The manager becomes ready after the cache is filled from
// which the webhook reads.
func SetupWithManager(mgr ctrl.Manager, options Options) error {
	if options.ClientImage == "" {
		return errors.New("setting up injection: the client image is empty: pass --client-image or set PEERCACHE_CLIENT_IMAGE")
	}
	mgr.GetWebhookServer().Register(Path, guarded(options.Askers, &webhook.Admission{Handler: &handler{
		options: options,
		cached:  mgr.GetClient(),
		live:    mgr.GetAPIReader(),
	}}))
	warmer := newWarmer(mgr.GetCache(), options.cachedObjects())
	if err := mgr.Add(warmer); err != nil {
		return fmt.Errorf("setting up the webhook's cache: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook-cache", warmer.ready); err != nil {
		return fmt.Errorf("adding the readiness check of the webhook's cache: %w", err)
	}
	return nil
}

// handler answers admission requests for pods. It admits every pod, even after an error. It writes nothing: the pod does not exist
// yet, and does not have to, because others than the API server may ask.
type handler struct {
	options Options
	cached  client.Reader
	live    client.Reader
}

// Handle implements admission.Handler.
func (h *handler) Handle(ctx context.Context, req admission.Request) (response admission.Response) {
	defer func() { // the server around it would have the API server refuse the pod
		if cause := recover(); cause != nil {
			ctrl.LoggerFrom(ctx).Error(fmt.Errorf("panic: %v", cause), "the pod was not connected", "stack", string(debug.Stack()))
			injections.WithLabelValues("unreadable", "none").Inc()
			response = admission.Allowed("").WithWarnings("peercache: the pod was not connected, because of a fault of the operator that is in its log")
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, handleTimeout)
	defer cancel()

	pod := &corev1.Pod{}
	if err := json.Unmarshal(req.Object.Raw, pod); err != nil { // a decoder would parse it twice, the first time for its kind
		injections.WithLabelValues("unreadable", "none").Inc()
		return admission.Allowed("").WithWarnings(fmt.Sprintf("peercache: the pod was not connected: decoding it: %v", err))
	}
	result, cluster := h.inject(ctx, req.Namespace, pod)
	if cluster != nil && cluster.Spec.Injection.By == v1alpha1.InjectionByPolicy {
		return admission.Allowed("") // the policy has connected the pod, or the watchdog reports it as missed
	}
	ctrl.LoggerFrom(ctx).Info("answered", "namespace", req.Namespace, "pod", podName(pod),
		"cluster", pod.Labels[v1alpha1.LabelInject], "injected", result.Injected, "partly", result.Partly,
		"skipReason", result.SkipReason, "note", result.Note)
	if req.DryRun == nil || !*req.DryRun {
		count(result, cluster != nil)
	}
	return respond(pod, result)
}

// inject gathers the facts and calls Inject. The cluster is nil where it could not be read.
func (h *handler) inject(ctx context.Context, namespace string, pod *corev1.Pod) (Result, *v1alpha1.PeerCacheCluster) {
	key := ClusterOf(pod, namespace)
	if key.Name == "" {
		return Skip(pod, "label "+v1alpha1.LabelInject+" is empty: write the name of a PeerCacheCluster"), nil
	}
	if !h.options.Watches(key.Namespace) {
		return Skip(pod, reasons.NamespaceNotWatched(key.String())), nil
	}
	cluster := &v1alpha1.PeerCacheCluster{}
	switch err := h.fresh().Get(ctx, key, cluster); {
	case apierrors.IsNotFound(err) && key.Namespace != namespace:
		return Skip(pod, reasons.NamespaceNotServed(key.String(), namespace)), nil
	case apierrors.IsNotFound(err):
		return Skip(pod, "PeerCacheCluster "+key.String()+" does not exist: create it first, correct the label "+
			v1alpha1.LabelInject+", or name its namespace in the annotation "+v1alpha1.AnnotationClusterNamespace), nil
	case err != nil:
		return Skip(pod, fmt.Sprintf("reading PeerCacheCluster %s failed: %v: create the pod again later", key, err)), nil
	}
	if reason := RefusesNamespace(ctx, h.namespaces(), cluster, namespace); reason != "" {
		return Skip(pod, reason), cluster
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return Skip(pod, reasons.ClusterDeleting(key.String())), cluster
	}
	facts, err := Gather(ctx, h.cached, h.namespaces(), cluster, namespace, h.options)
	if err != nil {
		return Skip(pod, err.Error()+": create the pod again later"), cluster
	}
	facts.Holdout = drawHoldout(cluster.Spec.Injection.Holdout, rand.IntN(percents)) //nolint:gosec // it is no secret who is held out
	return Inject(pod, facts), cluster
}

// fresh reads from the cache. It asks the API server for an object that the cache lacks, which may be only seconds old.
type fresh struct {
	client.Reader
	live client.Reader
}

func (f fresh) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := f.Reader.Get(ctx, key, object, options...)
	if apierrors.IsNotFound(err) {
		err = f.live.Get(ctx, key, object, options...)
	}
	return err //nolint:wrapcheck // it stands for either reader
}

func (h *handler) fresh() client.Reader { return fresh{h.cached, h.live} }

// namespaces reads Namespaces. Who may not watch those of the whole Kubernetes cluster may still read one.
func (h *handler) namespaces() client.Reader {
	if h.options.Namespaced() {
		return h.live
	}
	return h.fresh()
}

// respond turns a result into a patch. Both pods were decoded with the same types. Fields that these types lack are in
// neither, so the patch keeps them.
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

// podName is the name of the pod, or its generateName with "*" for the random ending.
func podName(pod *corev1.Pod) string {
	if pod.Name != "" {
		return pod.Name
	}
	return pod.GenerateName + "*"
}
