// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// userEnds and podIsLost are what ends a forward that serves.
const (
	userEnds  = "the user ends it"
	podIsLost = "lost connection to pod"
)

// forward takes the next of the answers "POD forward": an error, or what ends it.
func (f *fakePods) forward(_ context.Context, pod *corev1.Pod, port int32, local uint16, ready func(uint16)) error {
	if port != 31997 {
		return fmt.Errorf("port %d is not the one of monitoring", port)
	}
	answer, err := f.next(pod.Name + " forward")
	if err != nil {
		return err
	}
	if local == 0 {
		local = 40123
	}
	ready(local)
	if answer == userEnds {
		f.end()
		return nil
	}
	return errors.New(podIsLost)
}

func TestDashboard(t *testing.T) {
	objects := func() []client.Object {
		return []client.Object{cluster("kv"), nodePod("node-a"), nodePod("node-b", host), nodePod("node-c", host)}
	}
	const served = "inference/kv: http://127.0.0.1:%d/ (pod kv-default-%s; Ctrl-C ends it)\n"
	refused := errors.New("connection refused")
	for name, test := range map[string]struct {
		answers map[string][]any
		args    []string
		stdout  string
		stderr  string
		status  int
	}{
		"a discovery host, not any node": {
			answers: map[string][]any{"kv-default-b forward": {userEnds}},
			stdout:  fmt.Sprintf(served, 40123, "b"),
		},
		"the port of the user": {
			answers: map[string][]any{"kv-default-b forward": {userEnds}},
			args:    []string{"kv", "--port", "8080"},
			stdout:  fmt.Sprintf(served, 8080, "b"),
		},
		"the next host where one cannot be reached": {
			answers: map[string][]any{"kv-default-b forward": {refused}, "kv-default-c forward": {userEnds}},
			stdout:  fmt.Sprintf(served, 40123, "c"),
		},
		"another host behind the same address, when one is lost": {
			answers: map[string][]any{"kv-default-b forward": {podIsLost, refused}, "kv-default-c forward": {userEnds}},
			stdout:  fmt.Sprintf(served, 40123, "b") + fmt.Sprintf(served, 40123, "c"),
			stderr:  "lost connection to pod; trying the discovery hosts of inference/kv again\n",
		},
		"nobody": {
			answers: map[string][]any{"kv-default-b forward": {refused}, "kv-default-c forward": {refused}},
			stderr: "connection refused; trying the discovery hosts of inference/kv again\n" +
				"error: no discovery host of inference/kv can be reached: connection refused\n",
			status: 1,
		},
		"a port that is taken": {
			answers: map[string][]any{"kv-default-b forward": {fmt.Errorf("%w: port 8080 is taken", errNoPort)}},
			args:    []string{"--port", "8080"},
			stderr:  "error: listening: port 8080 is taken\n",
			status:  1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			pods := &fakePods{answers: test.answers, end: end}
			got := runCommandUntil(ctx, t, pods, store(t, objects()...), nil, append([]string{"dashboard"}, test.args...)...)
			if got.status != test.status || got.stdout != test.stdout || got.stderr != test.stderr {
				t.Errorf("status %d, stdout %q, stderr %q; want %d, %q, %q", got.status, got.stdout, got.stderr, test.status, test.stdout, test.stderr)
			}
			if strings.Contains(strings.Join(got.asked, " "), "kv-default-a") {
				t.Errorf("a node that hosts no discovery was asked: %v", got.asked)
			}
		})
	}
}
