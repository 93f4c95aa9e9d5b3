// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	claimed "github.com/peercache/peercache/internal/ports"
)

// The phases, in order.
const (
	phaseApply   = "apply"
	phaseEngines = "engines"
	phaseIdle    = "idle"
	phaseLoad    = "load"
	phaseRestart = "restart"
)

const (
	// stableTimeout bounds the start of a full cluster on a busy machine.
	stableTimeout  = 20 * time.Minute
	pollInterval   = 100 * time.Millisecond
	sampleInterval = time.Second
)

// measurement is one run.
type measurement struct {
	config
	*progress
	controlPlane *controlPlane
	ports        ports
	folder       string
	members      *members
	daemons      *daemons
	operator     atomic.Pointer[process]
	phase        atomic.Pointer[string]
	result       *result
}

// measure runs all phases.
func measure(ctx context.Context, c config, p *progress) (found *result, err error) {
	folder, err := os.MkdirTemp("", "peercache-scale-")
	if err != nil {
		return nil, fmt.Errorf("making a folder (TMPDIR): %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	var free [4]int
	for i := range free {
		if free[i], err = claimed.Claim(ctx); err != nil {
			return nil, err
		}
	}
	m := &measurement{
		config: c, progress: p, folder: folder, ports: ports{free[0], free[1], free[2]},
		members: newMembers(c, free[3]), result: newResult(c),
	}
	defer func() { err = errors.Join(err, m.members.close()) }()
	p.say("starting etcd and kube-apiserver")
	if m.controlPlane, err = startControlPlane(ctx, c, folder, m.ports.webhook); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.controlPlane.stop()) }()
	m.daemons = &daemons{client: m.controlPlane.client, config: c, members: m.members}
	if err := m.prepare(ctx); err != nil {
		return nil, err
	}
	if err := m.startOperator(ctx, "operator.log"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.operator.Load().stop()) }()
	sampling, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { m.sample(sampling) })
	defer wait.Wait()
	defer stop()
	for _, one := range []struct {
		name string
		do   func(context.Context) error
	}{
		{phaseApply, m.apply}, {phaseEngines, m.engines}, {phaseIdle, m.idle}, {phaseLoad, m.load}, {phaseRestart, m.restart},
	} {
		if err := m.runPhase(ctx, one.name, one.do); err != nil {
			return nil, fmt.Errorf("phase %s: %w", one.name, err)
		}
	}
	m.result.Fleet = answered{m.members.asked.Load(), m.members.size()}
	m.result.checkLimits()
	return m.result, nil
}

func (m *measurement) prepare(ctx context.Context) error {
	var done atomic.Int64
	stop := m.during(func() string { return fmt.Sprintf("machines %d of %d", done.Load(), m.nodes) })
	defer stop()
	m.say("registering %d machines", m.nodes)
	for _, network := range newNetworks(m.config) {
		if err := m.controlPlane.client.Create(ctx, network); err != nil {
			return fmt.Errorf("creating network %s: %w", network.GetName(), err)
		}
	}
	return createMachines(ctx, m.controlPlane.client, m.config, &done)
}

func (m *measurement) startOperator(ctx context.Context, log string) error {
	m.say("starting the operator")
	operator, err := startOperator(ctx, m.config, m.controlPlane, m.ports, m.folder, filepath.Join(m.out, log))
	if err != nil {
		return err
	}
	m.operator.Store(operator)
	return nil
}

// runPhase runs a phase and records what the operator did in it.
func (m *measurement) runPhase(ctx context.Context, name string, do func(context.Context) error) error {
	m.say("phase %s", name)
	m.phase.Store(&name)
	calls, err := m.controlPlane.audit.read()
	if err != nil {
		return err
	}
	before, err := m.operator.Load().work(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	if err := do(ctx); err != nil {
		return err
	}
	p := phase{Name: name, Seconds: time.Since(started).Seconds()}
	after, err := m.operator.Load().work(ctx)
	if err != nil {
		return err
	}
	if name == phaseRestart {
		before = work{} // the operator is another process now
	}
	p.Passes, p.CPUSeconds, p.HeapMiB = int(after.passes-before.passes), after.cpu-before.cpu, after.heap/(1<<20)
	if p.MemoryMiB, p.PeakMemoryMiB, err = m.operator.Load().memory(); err != nil {
		return err
	}
	now, err := m.controlPlane.audit.read()
	if err != nil {
		return err
	}
	added := now.since(calls)
	p.Writes = added.writes().byName()
	p.Reads = added.only(func(c call) bool { return !c.isWrite() && !c.isLease() }).byName()
	p.LeaseRenewals = added.only(func(c call) bool { return c.isWrite() && c.isLease() }).sum()
	m.result.Phases = append(m.result.Phases, p)
	m.say("phase %s took %.1f s: %d writes, %d passes, memory %.0f MiB, at most %.0f", name, p.Seconds, p.writes(), p.Passes,
		p.MemoryMiB, p.PeakMemoryMiB)
	return nil
}

// sample records memory and writes over time.
func (m *measurement) sample(ctx context.Context) {
	started := time.Now()
	for pause(ctx, sampleInterval) == nil {
		phase := m.phase.Load()
		memory, _, err := m.operator.Load().memory()
		if err != nil || phase == nil {
			continue // the operator is restarting
		}
		calls, err := m.controlPlane.audit.read()
		if err != nil {
			continue // the phase reports it
		}
		m.result.Samples = append(m.result.Samples, sample{
			time.Since(started).Seconds(), *phase, calls.writes().sum(), memory, m.daemons.ready.Load()})
	}
}

// apply creates the cluster and waits until its status is final.
func (m *measurement) apply(ctx context.Context) error {
	var last atomic.Pointer[string]
	last.Store(new(""))
	stop := m.during(func() string {
		return fmt.Sprintf("pods %d created, %d ready of %d; status: %s", m.daemons.created.Load(), m.daemons.ready.Load(),
			m.nodes*m.groups, *last.Load())
	})
	defer stop()
	started := time.Now()
	if err := m.controlPlane.client.Create(ctx, newCluster(m.config, m.members.port)); err != nil {
		return fmt.Errorf("creating the PeerCacheCluster: %w", err)
	}
	up := make(chan error, 1)
	var ready atomic.Pointer[time.Time]
	go func() {
		err := m.daemons.bringUp(ctx)
		ready.Store(new(time.Now()))
		up <- err
	}()
	changed, err := m.waitStable(ctx, func(missing string) { last.Store(&missing) }, up)
	if err != nil {
		return err
	}
	m.result.StableSeconds = changed.Sub(started).Seconds()
	m.result.LagSeconds = max(0, changed.Sub(*ready.Load()).Seconds())
	return nil
}

// waitStable waits until the status is complete and unchanged for a while, and the discovery hosts have their final machines. It
// returns the time of the last change. An error from up ends the wait.
func (m *measurement) waitStable(ctx context.Context, tell func(string), up <-chan error) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stableTimeout, fmt.Errorf("the status is not stable after %s", stableTimeout))
	defer cancel()
	version, changed, missing, misplaced := "", time.Now(), "", ""
	for pause(ctx, pollInterval) == nil {
		select {
		case err := <-up:
			if err != nil {
				return changed, err
			}
			up = nil
		default:
		}
		cluster := &v1alpha1.PeerCacheCluster{}
		if err := m.controlPlane.client.Get(ctx, client.ObjectKey{Namespace: servingNamespace, Name: clusterName}, cluster); err != nil {
			return changed, fmt.Errorf("reading the PeerCacheCluster: %w", err)
		}
		if cluster.ResourceVersion != version {
			version, changed = cluster.ResourceVersion, time.Now()
			missing = incomplete(m.config, cluster)
			tell(missing)
		}
		if missing != "" || up != nil || time.Since(changed) < m.quiet {
			continue
		}
		var err error
		if misplaced, err = misplacedHosts(ctx, m.controlPlane.client, m.config); err != nil || misplaced == "" {
			return changed, err
		}
		tell(misplaced)
	}
	return changed, fmt.Errorf("%w: %s", context.Cause(ctx), cmp.Or(missing, misplaced))
}

func (m *measurement) engines(ctx context.Context) error {
	var created, connected atomic.Int64
	stop := m.during(func() string {
		return fmt.Sprintf("SGLang pods %d of %d, %d connected", created.Load(), m.config.engines, connected.Load())
	})
	defer stop()
	if err := createEngines(ctx, m.controlPlane.client, m.config, &created, &connected); err != nil {
		return err
	}
	m.result.Connected = int(connected.Load())
	if err := m.waitEnginesSeen(ctx); err != nil {
		return err
	}
	_, err := m.waitStable(ctx, func(string) {}, nil)
	return err
}

// waitEnginesSeen waits until a pass has looked at the SGLang pods: they cause none.
func (m *measurement) waitEnginesSeen(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stableTimeout, fmt.Errorf("no pass has seen the SGLang pods after %s", stableTimeout))
	defer cancel()
	for pause(ctx, pollInterval) == nil {
		cluster := &v1alpha1.PeerCacheCluster{}
		if err := m.controlPlane.client.Get(ctx, client.ObjectKey{Namespace: servingNamespace, Name: clusterName}, cluster); err != nil {
			return fmt.Errorf("reading the PeerCacheCluster: %w", err)
		}
		attached := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionEnginesAttached)
		if m.config.engines == 0 || attached != nil && attached.Reason != "NoEngines" {
			return nil
		}
	}
	return context.Cause(ctx)
}

func (m *measurement) idle(ctx context.Context) error {
	var beats atomic.Int64
	stop := m.during(func() string { return fmt.Sprintf("kubelets wrote %d times", beats.Load()) })
	defer stop()
	return heartbeat(ctx, m.controlPlane.client, m.config, m.daemons.names, &beats)
}

func (m *measurement) load(ctx context.Context) error {
	load, err := newAdmissions(ctx, m.config, m.controlPlane.client, m.ports.webhook)
	if err != nil {
		return err
	}
	stop := m.during(func() string { return fmt.Sprintf("%d admissions a second", m.rate) })
	defer stop()
	load.ask(ctx, m.rate, time.Second) // opens connections and initialises the webhook before the measurement
	got := load.ask(ctx, m.rate, m.config.load)
	if got.lastFailure != nil {
		m.say("%d admissions failed, the last with: %v", got.failed, got.lastFailure)
	}
	m.result.Webhook = latency{
		Rate: m.rate, Seconds: m.config.load.Seconds(), Asked: got.asked, Failed: got.failed, Patched: got.patched,
		P50: quantile(got.latencies, 0.5), P90: quantile(got.latencies, 0.9), P99: quantile(got.latencies, 0.99),
		P999: quantile(got.latencies, 0.999), Max: quantile(got.latencies, 1), LateP99: quantile(got.late, 0.99),
	}
	return ctx.Err()
}

// restart replaces the operator, which lists everything at once and must write nothing.
func (m *measurement) restart(ctx context.Context) error {
	if err := m.operator.Load().stop(); err != nil {
		return err
	}
	if err := m.startOperator(ctx, "operator-restarted.log"); err != nil {
		return err
	}
	// A standby replica does not reconcile: it is ready before it leads.
	for deadline := time.Now().Add(startTimeout); ; {
		done, err := m.operator.Load().work(ctx)
		if err != nil {
			return err
		}
		if done.passes > 0 {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("the operator that was started again does not look at the cluster")
		}
		if err := pause(ctx, countInterval); err != nil {
			return err
		}
	}
	_, err := m.waitStable(ctx, func(string) {}, nil)
	return err
}
