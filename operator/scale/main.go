// SPDX-License-Identifier: Apache-2.0

// Command scale measures what the operator costs with many machines. It fails when a limit is missed.
//
//	make scale
//	go run ./operator/scale --operator bin/peercache-operator --nodes 20 --engines 100
//
// Real are etcd, kube-apiserver, and the program of the operator: it runs in its own process with the rights of
// config/default, and the API server calls its webhook over TLS. This program simulates machines, kubelets, the DaemonSet
// controller and the answers of the nodes to the operator. A run has these phases (measure.go):
//
//	apply    creates a PeerCacheCluster and its nodes, until its status no longer changes
//	engines  creates SGLang pods, which the webhook connects
//	idle     sends only the heartbeats of kubelets: the operator must write nothing
//	load     sends admissions at a fixed rate directly to the webhook
//	restart  starts a new operator that lists everything at once, as after an upgrade
//
// The requests of the operator come from the audit log of the API server (audit.go), and its memory from the kernel
// (process.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// config is the size of a run.
type config struct {
	root     string // folder of the repository
	operator string // program of the operator
	out      string // folder for scale.json and the log of the operator

	nodes, groups, rails, engines int

	quiet time.Duration // how long the status must be unchanged to be stable
	idle  time.Duration
	rate  int // admissions per second
	load  time.Duration
}

func parseFlags(args []string, output io.Writer) (config, error) {
	var c config
	set := flag.NewFlagSet("scale", flag.ContinueOnError)
	set.SetOutput(output)
	set.StringVar(&c.root, "root", ".", "`folder` of the repository")
	set.StringVar(&c.operator, "operator", "bin/peercache-operator", "the operator's `program`")
	set.StringVar(&c.out, "out", "operator/build/scale", "`folder` for the results")
	set.IntVar(&c.nodes, "nodes", 1000, "Kubernetes nodes")
	set.IntVar(&c.groups, "groups", 2, "groups: nodes of the cache on every Kubernetes node")
	set.IntVar(&c.rails, "rails", 8, "rails of every group")
	set.IntVar(&c.engines, "engines", 5000, "SGLang pods")
	set.DurationVar(&c.quiet, "quiet", 10*time.Second, "how long the status stands still before it counts as stable")
	set.DurationVar(&c.idle, "idle", 2*time.Minute, "how long nothing happens")
	set.IntVar(&c.rate, "rate", 200, "admissions per second")
	set.DurationVar(&c.load, "load", 30*time.Second, "how long admissions are asked for")
	if err := set.Parse(args); err != nil {
		return c, err
	}
	return c, c.validate()
}

func (c config) validate() error {
	switch {
	case c.nodes < 1 || c.nodes > maxMachines:
		return fmt.Errorf("--nodes=%d: write a number from 1 to %d", c.nodes, maxMachines)
	case c.groups < 1 || c.rails < 1 || c.groups*c.rails > 32:
		return fmt.Errorf("--groups=%d --rails=%d: a PeerCacheCluster has 1 to 32 rails altogether", c.groups, c.rails)
	case c.engines < 1 || c.rate < 1:
		return fmt.Errorf("--engines=%d --rate=%d: write positive numbers", c.engines, c.rate)
	default:
		return nil
	}
}

func main() {
	c, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	met, err := run(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
	}
	if err != nil || !met {
		os.Exit(1)
	}
}

// run measures, prints the result, and returns whether all limits are met.
func run(ctx context.Context, c config) (bool, error) {
	if err := os.MkdirAll(c.out, 0o750); err != nil {
		return false, fmt.Errorf("making the folder for results (--out): %w", err)
	}
	found, err := measure(ctx, c, newProgress(os.Stderr))
	if err != nil {
		return false, err
	}
	found.print(os.Stdout)
	file := filepath.Join(c.out, "scale.json")
	if err := found.save(file); err != nil {
		return false, err
	}
	fmt.Println("\nwrote", file)
	return found.met(), nil
}
