// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/wrongbytes"
)

const (
	pageTokens = 16 // the engine's default page size
	modelName  = "e2e/model"
)

// engine is a pod with SGLang's HiCache in it.
type engine struct {
	name, node string
	// namespace is "" for the suite's own.
	namespace string
}

func (e engine) home() string { return cmp.Or(e.namespace, namespace) }

// enginePod is what a user writes: SGLang's ordinary arguments and one label.
func enginePod(name, node string, more ...string) *corev1.Pod {
	grace := int64(0)
	args := append([]string{"--model-path", modelName, "--page-size", strconv.Itoa(pageTokens), "--port", "30000"}, more...)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelInject: clusterName},
		},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: node},
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			TerminationGracePeriodSeconds: &grace,
			RestartPolicy:                 corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name:            "engine",
				Image:           "ghcr.io/peercache/peercache/engine:" + version(),
				ImagePullPolicy: corev1.PullIfNotPresent,
				Command:         []string{"python3", "-m", "sglang.launch_server"},
				Args:            args,
				ReadinessProbe: &corev1.Probe{
					ProbeHandler:     corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"enginectl", "health"}}},
					PeriodSeconds:    2,
					TimeoutSeconds:   10,
					FailureThreshold: 10,
				},
			}},
		},
	}
}

func startEngine(ctx context.Context, name, node string, more ...string) engine {
	By("starting engine pod " + name + " on " + node)
	pod := enginePod(name, node, more...)
	Expect(kube.Create(ctx, pod)).To(Succeed())
	if len(more) == 0 { // else it may bring a backend of its own
		Expect(pod.Annotations).To(HaveKey("peercache.io/injected"), "engine %s runs without PeerCache: its creation has not reached the webhook", name)
	}
	return engine{name: name, node: node}
}

// removeEngine deletes the pod of an engine; a spec that failed may not have started it.
func removeEngine(ctx context.Context, e engine) {
	if e.name != "" {
		deleteAndWait(ctx, enginePod(e.name, e.node), time.Minute)
	}
}

func (e engine) waitReady(ctx context.Context) {
	Eventually(func(g Gomega) {
		pod, err := kube.pod(ctx, e.home(), e.name)
		g.Expect(err).NotTo(HaveOccurred())
		if pod.Status.Phase == corev1.PodFailed {
			logs, _ := kube.logs(ctx, e.home(), e.name, "engine", false)
			StopTrying("engine " + e.name + " has ended:\n" + logs).Now()
		}
		g.Expect(ready(pod)).To(BeTrue(), "engine %s is %s", e.name, pod.Status.Phase)
	}).WithContext(ctx).WithTimeout(2*time.Minute).Should(Succeed(), "engine %s does not become Ready", e.name)
}

// request is what enginectl takes.
type request struct {
	Kind    string   `json:"kind,omitempty"`
	Layout  string   `json:"layout,omitempty"`
	V1      bool     `json:"v1"`
	Seed    int      `json:"seed"`
	Pages   int      `json:"pages"`
	Seconds float64  `json:"seconds,omitempty"`
	SHA256s []string `json:"sha256s,omitempty"`
}

// result is what enginectl prints; which fields are set depends on the action.
type result struct {
	Backup         int      `json:"backup"`     // tokens
	Hit            int      `json:"hit"`        // tokens
	Prefetched     int      `json:"prefetched"` // tokens
	SHA256s        []string `json:"sha256s"`
	Seconds        float64  `json:"seconds"`
	Calls          int      `json:"calls"`
	MaxCallSeconds float64  `json:"max_call_seconds"`
	SharedMemory   bool     `json:"shared_memory"`

	Rounds      int `json:"rounds"`
	Pages       int `json:"pages"`
	Wrong       int `json:"wrong"`
	EmptyRounds int `json:"empty_rounds"`
	// WrongPages are the first of them.
	WrongPages []wrongbytes.Page `json:"wrong_pages"`
	FullRounds int               `json:"full_rounds"`
	Last       *round            `json:"last"`
	Timeline   []round           `json:"timeline"`
}

// round is one pass over the pages of a load.
type round struct {
	At    float64 `json:"at"`
	Pages int     `json:"pages"`
	Wrong int     `json:"wrong"`
}

func (e engine) do(ctx context.Context, action string, body request) (result, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return result{}, fmt.Errorf("writing the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	output, err := kube.exec(ctx, e.home(), e.name, string(text), "enginectl", action, "-")
	if err != nil {
		return result{}, fmt.Errorf("%s on engine %s: %w", action, e.name, err)
	}
	return parseResult(e, action, output)
}

func parseResult(e engine, action, output string) (result, error) {
	var answer result
	if err := json.Unmarshal([]byte(output), &answer); err != nil {
		return result{}, fmt.Errorf("%s on engine %s answered %q: %w", action, e.name, output, err)
	}
	wrongbytes.None(endSpec, e.name, answer.Wrong, answer.WrongPages)
	return answer, nil
}

func (e engine) write(ctx context.Context, body request) result {
	answer, err := e.do(ctx, "write", body)
	Expect(err).NotTo(HaveOccurred())
	return answer
}

func (e engine) read(ctx context.Context, body request) result {
	answer, err := e.do(ctx, "read", body)
	Expect(err).NotTo(HaveOccurred())
	return answer
}
