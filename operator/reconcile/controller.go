// SPDX-License-Identifier: Apache-2.0

// Package reconcile makes a cluster what its PeerCacheCluster says, in small ordered steps:
//
//	gather    read what is there                                (facts.go)
//	plan      decide what should be there: package plan, pure
//	preflight look whether machines and networks can carry it     (preflight.go, package preflight)
//	apply     write what differs, by server-side apply          (apply.go, drift.go, extras.go, former.go)
//	prune     delete DaemonSets of groups that are gone         (prune.go)
//	discover  label the pods that host discovery                (discovery.go, hosts.go)
//	injection find out whether SGLang pods are connected        (injection.go)
//	rescue    find SGLang pods that injection missed              (missed.go, package watchdog)
//	ask       the discovery hosts how all nodes are             (members.go)
//	report    conditions, events and status                     (conditions.go, health.go, faults.go, status.go)
//
// A step that has nothing to change writes nothing. All decisions are pure functions of what was read;
// this file only calls them in order, each in a span of its own (trace.go). Objects are deleted by their owner references alone, but for admission policies,
// which cannot have any (policy.go).
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/preflight"
	"github.com/peercache/peercache/operator/tracing"
)

// Asker asks nodes for their status; see fleet.Client.
type Asker interface {
	Ask(ctx context.Context, addresses []string) ([]fleet.NodeStatus, error)
}

// Reconciler reconciles PeerCacheClusters.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the API server.
	Client client.Client
	// Live reads from the API server. It is used only before an object is created.
	Live client.Reader
	// Events records what happens to a cluster.
	Events events.EventRecorder
	// Fleet asks the nodes.
	Fleet Asker
	// Engines finds SGLang pods that were missed; nil where nobody does.
	Engines Engines
	// Facts go into every plan.
	Facts plan.Facts
	// Injection goes into the admission policies of clusters that ask for one.
	Injection inject.Options
	// WebhookDisabled says that the operator does not connect SGLang pods itself.
	WebhookDisabled bool
	// Now is the clock.
	Now func() time.Time
	// Tracer makes a span of every pass; nil where nobody wants any.
	Tracer trace.Tracer

	memories memories
	found    finds
}

// pass is one look at one cluster. The steps fill it in from top to bottom.
type pass struct {
	cluster   *v1alpha1.PeerCacheCluster
	facts     facts
	desired   *plan.Desired // nil when the spec cannot be put into effect
	problem   *plan.Problem // why not
	checks    []metav1.Condition
	objects   []v1alpha1.MadeObject // made besides the nodes
	planned   *v1alpha1.PlanStatus  // in mode Plan only
	absent    []schema.GroupKind    // asked for, but not known to the API server
	members   int32
	heard     hearsay // of how the nodes are
	injection injectionState
	// driverMissing says that the CSI driver is, by which SGLang pods are to get their sockets.
	driverMissing bool
	// oldKernels says where that driver cannot work.
	oldKernels string
	missed     missed
	// changed says that this pass changed something.
	changed bool
	// settled says that nothing is to be expected soon.
	settled bool
	// waiting are the times at which a pass has something to do.
	waiting []time.Time
}

// +kubebuilder:rbac:groups=peercache.io,resources=peercacheclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=peercache.io,resources=peercacheclusters/status,verbs=patch
// +kubebuilder:rbac:groups=peercache.io,resources=peercacheclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps;services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch

// Reconcile takes one pass over one cluster.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ctx, span := r.begin(ctx, request)
	defer span.End()
	ended, err := r.look(ctx, request)
	if ended.word == resultGone {
		r.memories.forget(request.NamespacedName)
		withdraw(request.NamespacedName)
		err = errors.Join(err, r.deletePolicies(ctx, request.NamespacedName))
	} else {
		exportPass(request.NamespacedName, err)
	}
	span.SetAttributes(resultOf(ended, err))
	return ctrl.Result{RequeueAfter: ended.again}, tracing.Note(span, err)
}

// look takes the steps of a pass in order.
func (r *Reconciler) look(ctx context.Context, request ctrl.Request) (outcome, error) {
	cluster := &v1alpha1.PeerCacheCluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, cluster); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return outcome{word: resultGone}, nil
		}
		return outcome{}, fmt.Errorf("reading PeerCacheCluster %s: %w", request, err)
	}
	r.memories.of(cluster).remind(cluster)
	if !cluster.DeletionTimestamp.IsZero() {
		return outcome{word: resultDeleting}, nil // the garbage collector follows the owner references
	}
	if err := r.sweepFormer(ctx, cluster); err != nil {
		return outcome{}, err
	}
	p := &pass{cluster: cluster, members: cluster.Status.Members, objects: cluster.Status.Objects}
	if err := r.step(ctx, p, "gather", r.gather); err != nil {
		return outcome{}, err
	}
	err := r.realise(ctx, p)
	if errors.Is(err, errFormer) {
		return outcome{resultChanging, whileCleared}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context, *pass) error
	}{
		{"discover", r.placeDiscovery}, {"injection", r.lookAtInjection}, {"rescue", r.rescue},
		{"ask", func(ctx context.Context, p *pass) error { r.askFleet(ctx, p); return nil }}, {"report", r.report},
	} {
		if err := r.step(ctx, p, step.name, step.do); err != nil {
			return outcome{}, err
		}
	}
	return r.outcomeOf(p), nil
}

// realise plans and carries out. A spec that cannot be put into effect is no error of ours: it is noted
// in the pass, whatever runs is left alone, and the user hears of it through the conditions.
func (r *Reconciler) realise(ctx context.Context, p *pass) error {
	var desired *plan.Desired
	err := r.step(ctx, p, "plan", func(_ context.Context, p *pass) (err error) {
		desired, err = plan.For(p.cluster, r.Facts)
		return err
	})
	if err == nil {
		desired.Extras = append(desired.Extras, policies(p.cluster, r.Injection, p.driverMissing)...)
		err = r.carryOut(ctx, p, desired)
	}
	if errors.As(err, &p.problem) {
		log.FromContext(ctx).Info("the spec cannot be put into effect", "reason", p.problem.Reason,
			"message", p.problem.Message)
		trace.SpanFromContext(ctx).SetAttributes(attribute.String(attributeRefused, p.problem.Reason))
		return nil
	}
	return err
}

// carryOut puts a plan into effect, or shows what that would do.
func (r *Reconciler) carryOut(ctx context.Context, p *pass, desired *plan.Desired) error {
	var report preflight.Report
	err := r.step(ctx, p, "preflight", func(ctx context.Context, p *pass) (err error) {
		report, err = r.preflight(ctx, p, desired)
		return err
	})
	if err != nil {
		return err
	}
	p.checks, p.oldKernels = report.Conditions, report.SocketKernels
	if p.cluster.Spec.Mode == v1alpha1.ModePlan {
		return r.step(ctx, p, "preview", func(ctx context.Context, p *pass) (err error) {
			report.Plan.Changes, err = r.preview(ctx, p, desired)
			if err == nil {
				p.planned = &report.Plan
			}
			return err
		})
	}
	err = r.step(ctx, p, "apply", func(ctx context.Context, p *pass) error {
		if err := r.awaitFormer(ctx, p, desired); err != nil {
			return err
		}
		if err := r.applyExtras(ctx, p, desired); err != nil {
			return err
		}
		return r.apply(ctx, p, desired)
	})
	if err != nil {
		return err
	}
	p.desired = desired
	return r.step(ctx, p, "prune", r.prune)
}
