// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/names"
)

// newEngine returns a pod of a ReplicaSet that runs SGLang and asks for the cluster.
func newEngine(i int, c config) *corev1.Pod {
	owner := fmt.Sprintf("qwen-%03d-7c9d8b6f5d", i/100)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: servingNamespace, Name: fmt.Sprintf("%s-%05d", owner, i),
			Labels: map[string]string{"app": "qwen", "pod-template-hash": "7c9d8b6f5d", v1alpha1.LabelInject: clusterName},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: machineName(i % c.nodes),
			Containers: []corev1.Container{{
				Name: "sglang", Image: "lmsysorg/sglang:v0.5.23",
				Command: []string{"python3", "-m", "sglang.launch_server"},
				Args: []string{"--model-path", "/models/qwen", "--tp", "8", "--host", "0.0.0.0", "--port", "30000",
					"--enable-hierarchical-cache", "--hicache-ratio", "2"},
				Env: []corev1.EnvVar{{Name: "HF_HUB_OFFLINE", Value: "1"}, {Name: "NCCL_DEBUG", Value: "WARN"}},
				Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
					Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("64Gi")},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "models", MountPath: "/models"}},
			}},
			Volumes: []corev1.Volume{{Name: "models", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/models"}}}},
		},
	}
}

// createEngines creates all SGLang pods, sets them running, and counts the connected ones.
func createEngines(ctx context.Context, to client.Client, c config, created, connected *atomic.Int64) error {
	return inParallel(ctx, c.engines, func(ctx context.Context, i int) error {
		pod := newEngine(i, c)
		if err := to.Create(ctx, pod); err != nil {
			return fmt.Errorf("creating SGLang pod %s: %w", pod.Name, err)
		}
		if pod.Annotations[names.AnnotationInjected] != "" {
			connected.Add(1)
		}
		created.Add(1)
		before := pod.DeepCopy()
		pod.Status = statusOf(pod, address(i%c.nodes, 0), true)
		if err := to.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("writing the status of SGLang pod %s: %w", pod.Name, err)
		}
		return nil
	})
}
