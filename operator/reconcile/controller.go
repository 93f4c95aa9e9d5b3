// SPDX-License-Identifier: Apache-2.0

// Package reconcile brings the objects of a PeerCacheCluster to what its spec says. A pass over one cluster takes these steps:
//
//	gather    read DaemonSets, pods and machines from the cache         (facts.go)
//	plan      compute the desired objects                               (package plan)
//	preflight compare the plan with machines and networks               (preflight.go, package preflight)
//	apply     write the objects that differ, by server-side apply       (package apply)
//	prune     delete DaemonSets of groups that are gone, and run those
//	          that remove the files of pools                            (poolremovals.go, package apply)
//	discover  label the pods that host discovery                        (discovery.go, package discovery)
//	bypass    label the pods of members that SGLang pods go without     (bypass.go, package plan)
//	update    give pods another image in place                          (inplace.go, package inplace)
//	refusals  ask why pods are missing                                  (refused.go)
//	injection check that SGLang pods are connected                      (injection.go)
//	rescue    find SGLang pods that injection missed, recreate them     (recreate.go, package watchdog)
//	ask       ask the discovery hosts for the health of all nodes       (fleet.go, package fleet)
//	report    write status, conditions and events                       (status.go, package status)
//
// A step writes nothing when nothing changes. The packages in the right column decide, as pure functions of what was read;
// apply, watchdog and fleet talk to the API server and to nodes. This package reads, and calls the others in order, each step
// in a span of its own (trace.go). memory.go holds what is remembered between passes, requeue.go decides when the next pass
// comes. Owner references delete a cluster's objects; the operator deletes only those that cannot have an owner, or that the
// spec no longer requests.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/apply"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/preflight"
	"github.com/peercache/peercache/operator/status"
	"github.com/peercache/peercache/operator/tracing"
)

// FleetClient asks nodes for their status; see fleet.Client.
type FleetClient interface {
	Ask(ctx context.Context, addresses []string) ([]fleet.NodeStatus, error)
}

// Reconciler reconciles PeerCacheClusters.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the API server.
	Client client.Client
	// Live reads from the API server, past the cache.
	Live client.Reader
	// Events records what happens to a cluster.
	Events events.EventRecorder
	// Fleet asks the discovery hosts.
	Fleet FleetClient
	// Watchdog finds SGLang pods that injection missed; nil disables that.
	Watchdog Watchdog
	// Facts are the input of every plan besides the cluster.
	Facts plan.Facts
	// Injection configures the admission policies of clusters that request one, and names the namespaces that the operator watches.
	Injection inject.Options
	// WebhookDisabled says that the operator runs without its webhook.
	WebhookDisabled bool
	// Now is the clock.
	Now func() time.Time
	// Tracer makes a span of every pass; nil disables that.
	Tracer trace.Tracer

	memories     clusterMemories
	lookups      lookupCache
	imageVolumes imageVolumes
}

// pass is one pass over one cluster. The steps fill it in from top to bottom.
type pass struct {
	// Observed is the input of the status.
	status.Observed
	// poolRemovals are the DaemonSets of pods that remove the files of pools, by name.
	poolRemovals map[string]*appsv1.DaemonSet
	// driverMissing says that injection.socket asks for the CSI driver, which is not installed.
	driverMissing bool
	// limits are those of the cluster's namespace, where an admission policy connects its pods.
	limits []corev1.LimitRangeItem
	// changed says that this pass wrote or deleted an object.
	changed bool
	// settled says that no change is expected soon.
	settled bool
	// deadlines are the times at which a pass has more to do.
	deadlines []time.Time
}

func (r *Reconciler) applier() *apply.Applier {
	return &apply.Applier{Client: r.Client, Live: r.Live, Events: r.Events, Now: r.Now}
}

// +kubebuilder:rbac:groups=peercache.io,resources=peercacheclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=peercache.io,resources=peercacheclusters/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps;services;serviceaccounts,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch

// Reconcile takes one pass over one cluster.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if !r.Injection.Watches(request.Namespace) { // a pod here names a cluster elsewhere, which is not this operator's
		return ctrl.Result{}, nil
	}
	ctx, span := r.begin(ctx, request)
	defer span.End()
	ended, err := r.reconcile(ctx, request)
	if ended.word == resultGone {
		r.memories.forget(request.NamespacedName)
		deleteMetrics(request.NamespacedName)
		err = errors.Join(err, r.applier().DeletePolicies(ctx, request.NamespacedName))
	} else {
		exportPass(request.NamespacedName, err)
	}
	span.SetAttributes(resultOf(ended, err))
	return ctrl.Result{RequeueAfter: ended.again}, tracing.RecordError(span, err)
}

// reconcile takes the steps of a pass in order.
func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (outcome, error) {
	cluster := &v1alpha1.PeerCacheCluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, cluster); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return outcome{word: resultGone}, nil
		}
		return outcome{}, fmt.Errorf("reading PeerCacheCluster %s: %w", request, err)
	}
	memory := r.memories.get(cluster)
	memory.overlayStatus(cluster)
	if !cluster.DeletionTimestamp.IsZero() {
		return outcome{word: resultDeleting}, nil // the garbage collector follows the owner references
	}
	if err := r.applier().DeleteFormerPolicies(ctx, cluster, &memory.applied); err != nil {
		return outcome{}, err
	}
	p := &pass{Observed: status.Observed{
		Cluster: cluster, ActiveMembers: cluster.Status.ActiveMembers, Objects: cluster.Status.Objects, Namespaces: r.Injection.Namespaces,
		PodsUnpatched: r.Facts.PodsUnpatched,
	}}
	if err := r.step(ctx, p, "gather", r.gather); err != nil {
		return outcome{}, err
	}
	err := r.planAndApply(ctx, p)
	if errors.Is(err, apply.ErrFormerObjects) {
		return outcome{resultChanging, apply.FormerPoll}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context, *pass) error
	}{
		{"discover", r.discover}, {"bypass", r.bypass}, {"update", r.updateInPlace}, {"refusals", r.findRefusals}, {"injection", r.checkInjection}, {"rescue", r.recreateMissed},
		{"ask", func(ctx context.Context, p *pass) error { r.askFleet(ctx, p); return nil }}, {"report", r.report},
	} {
		if err := r.step(ctx, p, step.name, step.do); err != nil {
			return outcome{}, err
		}
	}
	return r.outcomeOf(p), nil
}

// planAndApply plans and applies. A spec that cannot be put into effect is not an error of the operator: it is noted in
// the pass, running nodes are left alone, and the conditions tell the user.
func (r *Reconciler) planAndApply(ctx context.Context, p *pass) error {
	var desired *plan.Desired
	err := r.step(ctx, p, "plan", func(_ context.Context, p *pass) (err error) {
		desired, err = plan.For(p.Cluster, r.Facts)
		return err
	})
	if err == nil {
		err = r.guardNetworks(ctx, desired)
	}
	if err == nil {
		p.replaceWhereNeeded(desired)
		desired.Extras = append(desired.Extras, apply.Policies(p.Cluster, r.Injection, p.driverMissing, p.limits)...)
		err = r.apply(ctx, p, desired)
	}
	if errors.As(err, &p.Problem) {
		log.FromContext(ctx).Info("the spec cannot be put into effect", "reason", p.Problem.Reason,
			"message", p.Problem.Message)
		trace.SpanFromContext(ctx).SetAttributes(attribute.String(attributeRefused, p.Problem.Reason))
		return nil
	}
	return err
}

// apply runs preflight and puts a plan into effect; in mode Plan it lists the changes instead.
func (r *Reconciler) apply(ctx context.Context, p *pass, desired *plan.Desired) error {
	var report preflight.Report
	err := r.step(ctx, p, "preflight", func(ctx context.Context, p *pass) (err error) {
		report, err = r.preflight(ctx, p, desired)
		return err
	})
	if err != nil {
		return err
	}
	p.Checks, p.OldKernels = report.Conditions, report.SocketKernels
	if p.Cluster.Status.Update != nil {
		desired.AllowForLost(p.DaemonSets, p.Pods, p.Machines)
	}
	applier := r.applier()
	run := &apply.Run{
		Cluster: p.Cluster, Memory: &r.memories.get(p.Cluster).applied, DaemonSets: p.DaemonSets, PoolRemovals: p.poolRemovals, Objects: p.Objects,
	}
	defer p.take(run)
	if p.Cluster.Spec.Mode == v1alpha1.ModePlan {
		return r.step(ctx, p, "preview", func(ctx context.Context, p *pass) (err error) {
			report.Plan.Changes, err = applier.Preview(ctx, run, desired)
			if err == nil {
				p.Planned = &report.Plan
			}
			return err
		})
	}
	if problem := desired.UnconfirmedLoss(p.Cluster, p.DaemonSets); problem != nil {
		return problem
	}
	err = r.step(ctx, p, "apply", func(ctx context.Context, _ *pass) error { return applier.Apply(ctx, run, desired) })
	if err != nil {
		return err
	}
	p.Desired = desired
	return r.step(ctx, p, "prune", func(ctx context.Context, p *pass) error {
		if err := applier.Prune(ctx, run, desired); err != nil {
			return err
		}
		return applier.ApplyPoolRemovals(ctx, run, desired, p.rest())
	})
}

// take copies the results of a run.
func (p *pass) take(run *apply.Run) {
	p.Objects, p.UnknownKinds, p.ForbiddenKinds, p.Token = run.Objects, run.UnknownKinds, run.ForbiddenKinds, run.Token
	p.changed = p.changed || run.Changed
	p.deadlines = append(p.deadlines, run.Deadlines...)
}
