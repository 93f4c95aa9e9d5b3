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

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
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
	// stableWithin bounds how long a full cluster takes to come up on a busy machine.
	stableWithin = 20 * time.Minute
	lookEvery    = 100 * time.Millisecond
	sampleEvery  = time.Second
)

// measurement is one run.
type measurement struct {
	config
	*progress
	world    *world
	ports    ports
	folder   string
	members  *members
	daemons  *daemons
	operator atomic.Pointer[process]
	phase    atomic.Pointer[string]
	result   *result
}

// measure goes through all phases.
func measure(ctx context.Context, c config, p *progress) (found *result, err error) {
	folder, err := os.MkdirTemp("", "peercache-scale-")
	if err != nil {
		return nil, fmt.Errorf("making a folder (TMPDIR): %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	free, err := freePorts(ctx, 4)
	if err != nil {
		return nil, err
	}
	m := &measurement{
		config: c, progress: p, folder: folder, ports: ports{free[0], free[1], free[2]},
		members: newMembers(c, free[3]), result: newResult(c),
	}
	defer func() { err = errors.Join(err, m.members.close()) }()
	p.say("starting etcd and kube-apiserver")
	if m.world, err = startWorld(ctx, c, folder, m.ports.webhook); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.world.stop()) }()
	m.daemons = &daemons{client: m.world.client, config: c, members: m.members}
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
		if err := m.during(ctx, one.name, one.do); err != nil {
			return nil, fmt.Errorf("phase %s: %w", one.name, err)
		}
	}
	m.result.Fleet = answered{m.members.asked.Load(), m.members.size()}
	m.result.judge()
	return m.result, nil
}

func (m *measurement) prepare(ctx context.Context) error {
	var done atomic.Int64
	stop := m.progress.during(func() string { return fmt.Sprintf("machines %d of %d", done.Load(), m.nodes) })
	defer stop()
	m.say("registering %d machines", m.nodes)
	for _, network := range newNetworks(m.config) {
		if err := m.world.client.Create(ctx, network); err != nil {
			return fmt.Errorf("creating network %s: %w", network.GetName(), err)
		}
	}
	return createMachines(ctx, m.world.client, m.config, &done)
}

func (m *measurement) startOperator(ctx context.Context, log string) error {
	m.say("starting the operator")
	operator, err := startOperator(ctx, m.config, m.world, m.ports, m.folder, filepath.Join(m.out, log))
	if err != nil {
		return err
	}
	m.operator.Store(operator)
	return nil
}

// during does a phase and notes what the operator did meanwhile.
func (m *measurement) during(ctx context.Context, name string, do func(context.Context) error) error {
	m.say("phase %s", name)
	m.phase.Store(&name)
	calls, err := m.world.audit.read()
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
		before = work{} // it is another process
	}
	p.Passes, p.CPUSeconds, p.HeapMiB = int(after.passes-before.passes), after.cpu-before.cpu, after.heap/(1<<20)
	if p.MemoryMiB, p.PeakMemoryMiB, err = m.operator.Load().memory(); err != nil {
		return err
	}
	now, err := m.world.audit.read()
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

// sample notes memory and writes over time.
func (m *measurement) sample(ctx context.Context) {
	started := time.Now()
	for pause(ctx, sampleEvery) == nil {
		phase := m.phase.Load()
		memory, _, err := m.operator.Load().memory()
		if err != nil || phase == nil {
			continue // it is just being restarted
		}
		calls, err := m.world.audit.read()
		if err != nil {
			continue // the phase reports it
		}
		m.result.Samples = append(m.result.Samples, sample{
			time.Since(started).Seconds(), *phase, calls.writes().sum(), memory, m.daemons.ready.Load()})
	}
}

// apply creates the cluster and waits until its status is what it will be.
func (m *measurement) apply(ctx context.Context) error {
	var last atomic.Pointer[string]
	last.Store(new(""))
	stop := m.progress.during(func() string {
		return fmt.Sprintf("pods %d created, %d ready of %d; status: %s", m.daemons.created.Load(), m.daemons.ready.Load(),
			m.nodes*m.groups, *last.Load())
	})
	defer stop()
	started := time.Now()
	if err := m.world.client.Create(ctx, newCluster(m.config, m.members.port)); err != nil {
		return fmt.Errorf("creating the PeerCacheCluster: %w", err)
	}
	up := make(chan error, 1)
	var ready atomic.Pointer[time.Time]
	go func() {
		err := m.daemons.bringUp(ctx)
		ready.Store(new(time.Now()))
		up <- err
	}()
	changed, err := m.settle(ctx, func(missing string) { last.Store(&missing) }, up)
	if err != nil {
		return err
	}
	m.result.StableSeconds = changed.Sub(started).Seconds()
	m.result.LagSeconds = max(0, changed.Sub(*ready.Load()).Seconds())
	return nil
}

// settle waits until the status is complete and has stood still for a while and the discovery hosts are where they stay,
// and returns when the status changed last. `up` may bring an error that makes waiting useless.
func (m *measurement) settle(ctx context.Context, tell func(string), up <-chan error) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stableWithin, fmt.Errorf("the status is not stable after %s", stableWithin))
	defer cancel()
	version, changed, missing, crowd := "", time.Now(), "", ""
	for pause(ctx, lookEvery) == nil {
		select {
		case err := <-up:
			if err != nil {
				return changed, err
			}
			up = nil
		default:
		}
		cluster := &v1alpha1.PeerCacheCluster{}
		if err := m.world.client.Get(ctx, client.ObjectKey{Namespace: servingNamespace, Name: clusterName}, cluster); err != nil {
			return changed, fmt.Errorf("reading the PeerCacheCluster: %w", err)
		}
		if cluster.ResourceVersion != version {
			version, changed = cluster.ResourceVersion, time.Now()
			missing = unstable(m.config, cluster)
			tell(missing)
		}
		if missing != "" || up != nil || time.Since(changed) < m.quiet {
			continue
		}
		var err error
		if crowd, err = crowded(ctx, m.world.client, m.config); err != nil || crowd == "" {
			return changed, err
		}
		tell(crowd)
	}
	return changed, fmt.Errorf("%w: %s", context.Cause(ctx), cmp.Or(missing, crowd))
}

func (m *measurement) engines(ctx context.Context) error {
	var created, connected atomic.Int64
	stop := m.progress.during(func() string {
		return fmt.Sprintf("SGLang pods %d of %d, %d connected", created.Load(), m.config.engines, connected.Load())
	})
	defer stop()
	if err := createEngines(ctx, m.world.client, m.config, &created, &connected); err != nil {
		return err
	}
	m.result.Connected = int(connected.Load())
	_, err := m.settle(ctx, func(string) {}, nil)
	return err
}

func (m *measurement) idle(ctx context.Context) error {
	var beats atomic.Int64
	stop := m.progress.during(func() string { return fmt.Sprintf("kubelets wrote %d times", beats.Load()) })
	defer stop()
	return heartbeat(ctx, m.world.client, m.config, m.daemons.names, &beats)
}

func (m *measurement) load(ctx context.Context) error {
	load, err := newAdmissions(ctx, m.config, m.world.client, m.ports.webhook)
	if err != nil {
		return err
	}
	stop := m.progress.during(func() string { return fmt.Sprintf("%d admissions a second", m.rate) })
	defer stop()
	load.ask(ctx, m.rate, time.Second) // connects, and compiles nothing for the first time afterwards
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

// restart replaces the operator, which lists everything at once and must find nothing to do.
func (m *measurement) restart(ctx context.Context) error {
	if err := m.operator.Load().stop(); err != nil {
		return err
	}
	if err := m.startOperator(ctx, "operator-restarted.log"); err != nil {
		return err
	}
	// Replicas that stand by do not look at clusters: it is ready before it leads.
	for deadline := time.Now().Add(patience); ; {
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
		if err := pause(ctx, countEvery); err != nil {
			return err
		}
	}
	_, err := m.settle(ctx, func(string) {}, nil)
	return err
}
