// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/plan"
)

// maxConcurrent bounds concurrent requests to nodes: each holds a connection of the API server.
const maxConcurrent = 16

// nodePods returns the data-plane pods of a cluster, ordered by machine and group.
func (a *access) nodePods(ctx context.Context, cluster *v1alpha1.PeerCacheCluster) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := a.List(ctx, &list, client.InNamespace(cluster.Namespace), client.MatchingLabels{
		v1alpha1.LabelCluster: cluster.Name, plan.LabelComponent: plan.ComponentNode,
	})
	if err != nil {
		return nil, explain(err, fmt.Sprintf("listing the members of %s", identityOf(cluster)))
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(nodeName(a), nodeName(b)), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

// nodeName returns the member name of the node of a pod: machine.group. For a pod without a machine it is the name of
// the pod.
func nodeName(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return pod.Name
	}
	return pod.Spec.NodeName + "." + pod.Labels[v1alpha1.LabelGroup]
}

// answer is the status of a node, or the error of asking for it.
type answer struct {
	pod    *corev1.Pod
	status fleet.NodeStatus
	at     time.Time
	err    error
}

// ask requests the status of the node of every pod, and returns the answers in the order of pods.
func (p *plugin) ask(ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, pods []*corev1.Pod) []answer {
	return eachPod(pods, func(pod *corev1.Pod) answer {
		got := answer{pod: pod}
		if why := notRunning(pod); why != "" {
			got.err = fmt.Errorf("pod %s %s", pod.Name, why)
			return got
		}
		var body []byte
		body, got.err = a.pods.get(ctx, pod, cluster.Spec.Monitoring.Port, "/v1/status")
		got.at = p.now()
		if got.err == nil {
			if err := json.Unmarshal(body, &got.status); err != nil {
				got.err = fmt.Errorf("reading /v1/status of pod %s: %w: is its image one of PeerCache's?", pod.Name, err)
			}
		}
		return got
	})
}

// eachPod calls do for every pod, maxConcurrent at a time, and returns the results in the order of pods.
func eachPod[T any](pods []*corev1.Pod, do func(*corev1.Pod) T) []T {
	results := make([]T, len(pods))
	slots := make(chan struct{}, maxConcurrent)
	var wait sync.WaitGroup
	for i, pod := range pods {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			results[i] = do(pod)
		})
	}
	wait.Wait()
	return results
}

// notRunning returns what a pod does instead of running, or "".
func notRunning(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "is being deleted"
	}
	if pod.Status.Phase == corev1.PodFailed {
		return fmt.Sprintf("failed (%s: %s)", pod.Status.Reason, pod.Status.Message)
	}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; container.Name == plan.ContainerName && waiting != nil {
			return fmt.Sprintf("waits (%s)", waiting.Reason)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return fmt.Sprintf("fits on no machine (%s)", condition.Message)
		}
	}
	if pod.Status.Phase != corev1.PodRunning {
		return fmt.Sprintf("is %s", cmp.Or(pod.Status.Phase, corev1.PodPending))
	}
	return ""
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
