// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startTimeout bounds the start and the stop of the operator, which take seconds, on a busy machine.
const startTimeout = 2 * time.Minute

// ports are the ports of the operator.
type ports struct{ webhook, probes, metrics int }

// process is a running operator.
type process struct {
	command *exec.Cmd
	ports   ports
	ended   chan error
	started time.Time
}

// startOperator runs the program as its Deployment does, and returns when it is ready.
func startOperator(ctx context.Context, c config, w *controlPlane, p ports, folder, log string) (*process, error) {
	output, err := os.Create(log) //nolint:gosec // a file in --out
	if err != nil {
		return nil, fmt.Errorf("making the operator's log: %w", err)
	}
	defer func() { _ = output.Close() }()
	local := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	program, err := filepath.Abs(c.operator)
	if err != nil {
		return nil, err
	}
	command := exec.Command(program, "--leader-elect", "--namespace="+systemNamespace, //nolint:gosec,noctx // it is stopped by SIGTERM
		"--dataplane-image=ghcr.io/peercache/peercache/dataplane:0.1.0", "--client-image=ghcr.io/peercache/peercache/client:0.1.0",
		"--metrics-bind-address="+local(p.metrics), "--health-probe-bind-address="+local(p.probes),
		"--webhook-port="+strconv.Itoa(p.webhook))
	command.Env = []string{"KUBECONFIG=" + w.kubeconfig, "TMPDIR=" + folder}
	command.Stdout, command.Stderr = output, output
	o := &process{command: command, ports: p, ended: make(chan error, 1), started: time.Now()}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the operator (--operator, `make build-operator` builds it): %w", err)
	}
	go func() { o.ended <- command.Wait() }()
	for deadline := time.Now().Add(startTimeout); ; {
		_, err := fetch(ctx, "http://"+local(p.probes)+"/readyz")
		if err == nil {
			return o, nil
		}
		select {
		case failure := <-o.ended:
			return nil, fmt.Errorf("the operator ended, see %s: %w", log, failure)
		case <-time.After(countInterval):
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("the operator does not become ready, see %s: %w", log, err), o.stop())
		}
	}
}

// stop stops the operator as the kubelet does.
func (o *process) stop() error {
	if err := o.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the operator: %w", err)
	}
	select {
	case err := <-o.ended:
		if err != nil {
			return fmt.Errorf("the operator stopped: %w", err)
		}
		return nil
	case <-time.After(startTimeout):
		return errors.Join(errors.New("the operator does not stop on SIGTERM"), o.command.Process.Kill())
	}
}

// memory returns the resident memory of the operator in MiB, now and at its peak, including the pages of the program
// file.
func (o *process) memory() (now, peak float64, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.command.Process.Pid))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the operator's memory: %w", err)
	}
	return statusField(content, "VmRSS"), statusField(content, "VmHWM"), nil
}

// statusField returns a field of /proc/PID/status such as "VmRSS:   123456 kB", in MiB.
func statusField(content []byte, name string) float64 {
	for line := range bytes.Lines(content) {
		if fields := strings.Fields(string(line)); len(fields) >= 2 && fields[0] == name+":" {
			kilobytes, _ := strconv.ParseFloat(fields[1], 64) // the kernel writes a number
			return kilobytes / 1024
		}
	}
	return 0
}

// work is how much the operator has done.
type work struct {
	passes float64 // number of reconciles
	cpu    float64 // in seconds
	heap   float64 // bytes in use, with garbage
}

func (o *process) work(ctx context.Context) (work, error) {
	body, err := fetch(ctx, fmt.Sprintf("http://127.0.0.1:%d/metrics", o.ports.metrics))
	if err != nil {
		return work{}, fmt.Errorf("reading the operator's metrics: %w", err)
	}
	return work{
		passes: sumOf(body, `controller_runtime_reconcile_total{controller="peercachecluster"`),
		cpu:    sumOf(body, "process_cpu_seconds_total"),
		heap:   sumOf(body, "go_memstats_heap_inuse_bytes"),
	}, nil
}

// sumOf adds the values of the series with this prefix.
func sumOf(metrics []byte, beginning string) float64 {
	sum := 0.0
	scanner := bufio.NewScanner(bytes.NewReader(metrics))
	for scanner.Scan() {
		if line := scanner.Text(); strings.HasPrefix(line, beginning) {
			value, _ := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64) // a metric is a number
			sum += value
		}
	}
	return sum
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return body, err
}
