// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// places are the machines by what they carry. The third has no engine; it is the one with the control
// plane, so that either of the others can be cut off without losing the API server.
type places struct{ writer, reader, third string }

func (p places) all() []string { return []string{p.writer, p.reader, p.third} }

func choosePlaces(ctx context.Context) places {
	var list corev1.NodeList
	Expect(kube.List(ctx, &list)).To(Succeed())
	var workers, controllers []string
	for _, node := range list.Items {
		if _, ok := node.Labels["node-role.kubernetes.io/control-plane"]; ok {
			controllers = append(controllers, node.Name)
		} else {
			workers = append(workers, node.Name)
		}
	}
	Expect(controllers).To(HaveLen(1), "the suite needs one machine with the control plane")
	Expect(workers).To(HaveLen(2), "the suite needs two machines without the control plane")
	slices.Sort(workers)
	return places{writer: workers[0], reader: workers[1], third: controllers[0]}
}

// nodePod is the data-plane pod on a machine.
func nodePod(ctx context.Context, node string) (*corev1.Pod, error) {
	return podOf(ctx, clusterName, node)
}

// podOf is the data-plane pod of a cluster on a machine.
func podOf(ctx context.Context, cluster, node string) (*corev1.Pod, error) {
	var list corev1.PodList
	err := kube.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster, "app.kubernetes.io/component": "node"})
	if err != nil {
		return nil, fmt.Errorf("listing data-plane pods: %w", err)
	}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("no data-plane pod on %s", node)
}

// replaced counts the machines whose node has another pod than before.
func replaced(ctx context.Context, g Gomega, before map[string]*corev1.Pod) (count int) {
	for _, node := range nodes.all() {
		pod, err := nodePod(ctx, node)
		g.Expect(err).NotTo(HaveOccurred())
		if pod.UID != before[node].UID {
			count++
		}
	}
	return count
}

// killNode kills the node on a machine; its container starts it again.
func killNode(ctx context.Context, machine string) {
	GinkgoHelper()
	_, err := below.exec(ctx, machine, "pkill", "-9", "-x", "peercached")
	Expect(err).NotTo(HaveOccurred())
}

// nodePods are the data-plane pods by machine.
func nodePods(ctx context.Context) map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for _, node := range nodes.all() {
		pod, err := nodePod(ctx, node)
		Expect(err).NotTo(HaveOccurred())
		pods[node] = pod
	}
	return pods
}

// status is what /v1/status answers, as far as the suite reads it.
type status struct {
	Node struct {
		ID          string `json:"id"`
		Incarnation uint64 `json:"incarnation"`
		Ready       bool   `json:"ready"`
		Reason      string `json:"reason"`
	} `json:"node"`
	Members []struct {
		ID          string `json:"id"`
		Incarnation uint64 `json:"incarnation"`
		Address     string `json:"address"`
		State       string `json:"state"`
		Breaker     string `json:"breaker"`
	} `json:"members"`
	NUMA struct {
		Node    int `json:"node"`
		Threads struct {
			CPUs string `json:"cpus"`
			Why  string `json:"why"`
		} `json:"threads"`
		Memory struct {
			ToldBy string `json:"told_by"`
		} `json:"memory"`
	} `json:"numa"`
	Pool struct {
		Pages uint64 `json:"pages"`
	} `json:"pool"`
	Engines []struct {
		Name    string `json:"name"`
		Regions int    `json:"regions"`
	} `json:"engines"`
	// Disk is nil where the node has no drives.
	Disk *struct {
		Pages        int `json:"pages"`
		WaitingPages int `json:"waiting_pages"`
		Devices      []struct {
			On  bool   `json:"on"`
			Why string `json:"why"`
		} `json:"devices"`
	} `json:"disk"`
}

func (s status) healthyMembers() (count int) {
	for _, m := range s.Members {
		if m.State == "active" && m.Breaker == "closed" {
			count++
		}
	}
	return count
}

func (s status) engineNames() (names []string) {
	for _, e := range s.Engines {
		names = append(names, e.Name)
	}
	return names
}

func nodeStatus(ctx context.Context, node string) (status, error) {
	pod, err := nodePod(ctx, node)
	if err != nil {
		return status{}, err
	}
	return statusOf(ctx, pod)
}

// wholeStatus is what the node tells from inside of its pod only: addresses, and who the engines are.
func wholeStatus(ctx context.Context, pod *corev1.Pod) (status, error) {
	var answer status
	command := append([]string{"peercached", "status"}, pod.Spec.Containers[0].Args...)
	body, err := kube.exec(ctx, pod.Namespace, pod.Name, "", command...)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return answer, fmt.Errorf("peercached status in %s: %w", pod.Name, err)
	}
	return answer, nil
}

func statusOf(ctx context.Context, pod *corev1.Pod) (status, error) {
	var answer status
	body, err := kube.get(ctx, namespace, pod.Name, monitoringPort, "/v1/status")
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("/v1/status of %s: %w", pod.Name, err)
	}
	return answer, nil
}

// metrics are a node's: the name with its labels, as the text format writes it, to the value.
type metrics map[string]float64

func nodeMetrics(ctx context.Context, node string) metrics {
	pod, err := nodePod(ctx, node)
	Expect(err).NotTo(HaveOccurred())
	return metricsOf(ctx, pod)
}

func metricsOf(ctx context.Context, pod *corev1.Pod) metrics {
	body, err := kube.get(ctx, namespace, pod.Name, monitoringPort, "/metrics")
	Expect(err).NotTo(HaveOccurred())
	values := metrics{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		name, value, found := strings.Cut(line, " ")
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		Expect(err).NotTo(HaveOccurred(), "/metrics of %s: %s", pod.Name, line)
		values[name] = number
	}
	return values
}
