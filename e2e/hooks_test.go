// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// hooks reach below Kubernetes: see the package's documentation.
type hooks struct{ program string }

func newHooks() (hooks, error) {
	program := os.Getenv("PEERCACHE_CLUSTER_HOOKS")
	if program == "" {
		return hooks{}, errors.New("PEERCACHE_CLUSTER_HOOKS is not set: name the program that reaches the machines, " +
			"such as hack/lab/cluster/cluster, or run `make e2e`")
	}
	if _, err := exec.LookPath(program); err != nil {
		return hooks{}, fmt.Errorf("PEERCACHE_CLUSTER_HOOKS=%s cannot be run: %w", program, err)
	}
	return hooks{program}, nil
}

// exec runs a command on a machine and returns what it prints.
func (h hooks) exec(ctx context.Context, node string, command ...string) (string, error) {
	return output(ctx, h.program, append([]string{"node-exec", node}, command...)...)
}

func (h hooks) link(ctx context.Context, node, state string) error {
	return command(ctx, h.program, "node-link", node, state)
}

// restart turns a machine off and on again: its memory is lost, its disk is not.
func (h hooks) restart(ctx context.Context, node string) error {
	return command(ctx, h.program, "node-restart", node)
}

func (h hooks) controlPlane(ctx context.Context, action string) error {
	return command(ctx, h.program, "control-plane", action)
}

// fabric installs or removes what gives pods interfaces on the machines' second network.
func (h hooks) fabric(ctx context.Context, action string) error {
	return command(ctx, h.program, "fabric", action)
}

// monitoring installs or removes the Prometheus Operator and a Prometheus that scrapes all namespaces.
func (h hooks) monitoring(ctx context.Context, action string) error {
	return command(ctx, h.program, "monitoring", action)
}

// dra installs or removes a driver that stands for DraNet: machines without the control plane have four ports, rail0 and rail3
// on NUMA node 0, rail1 and rail2 on NUMA node 1.
func (h hooks) dra(ctx context.Context, action string) error {
	return command(ctx, h.program, "dra", action)
}

// policies installs or removes what enforces NetworkPolicies.
func (h hooks) policies(ctx context.Context, action string) error {
	return command(ctx, h.program, "policies", action)
}

// leaderWorkerSets installs or removes their controllers and webhooks.
func (h hooks) leaderWorkerSets(ctx context.Context, action string) error {
	return command(ctx, h.program, "lws", action)
}

// registry installs a registry that all machines pull from, and returns its address; or removes it.
func (h hooks) registry(ctx context.Context, action string) (string, error) {
	address, err := output(ctx, h.program, "registry", action)
	return strings.TrimSpace(address), err
}

// command runs a program; what it prints is in the error.
func command(ctx context.Context, program string, args ...string) error {
	_, err := output(ctx, program, args...)
	return err
}

func output(ctx context.Context, program string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
