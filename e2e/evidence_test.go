// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
)

const tailLines = 15

func evidenceFolder() string { return filepath.Join(artifacts(), "evidence") }

// collectEvidence writes what explains a failure below the artifacts folder and prints the ends of the logs.
// It takes what it can get: that the API server does not answer may be the failure.
func collectEvidence(spec string) {
	if kube == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	slug := strings.Trim(regexp.MustCompile(`[^a-zA-Z0-9]+`).ReplaceAllString(spec, "-"), "-")
	folder := filepath.Join(evidenceFolder(), slug[:min(len(slug), 80)])
	save := func(name, text string) {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			GinkgoWriter.Println(err)
		} else if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			GinkgoWriter.Println(err)
		}
	}
	GinkgoWriter.Printf("\nevidence: %s\n", folder)

	var pods corev1.PodList
	if err := kube.List(ctx, &pods); err != nil {
		GinkgoWriter.Println("no evidence of pods:", err)
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Namespace != namespace && pod.Namespace != systemNamespace {
			continue
		}
		text, err := yaml.Marshal(pod)
		save(pod.Name+".yaml", fmt.Sprintf("%s# %v\n", text, err))
		for _, c := range pod.Status.ContainerStatuses {
			logs, err := kube.logs(ctx, pod.Namespace, pod.Name, c.Name, false)
			save(pod.Name+"-"+c.Name+".log", fmt.Sprintf("%s# %v\n", logs, err))
			GinkgoWriter.Printf("--- %s on %s (%s, %d restarts)\n%s\n", pod.Name, pod.Spec.NodeName, pod.Status.Phase,
				c.RestartCount, tail(logs))
			if c.RestartCount > 0 {
				logs, err := kube.logs(ctx, pod.Namespace, pod.Name, c.Name, true)
				save(pod.Name+"-"+c.Name+"-previous.log", fmt.Sprintf("%s# %v\n", logs, err))
			}
		}
		if pod.Labels[v1alpha1.LabelCluster] == clusterName {
			for name, path := range map[string]string{"status.json": "/v1/status", "metrics.txt": "/metrics"} {
				body, err := kube.get(ctx, pod.Namespace, pod.Name, monitoringPort, path)
				save(pod.Name+"-"+name, fmt.Sprintf("%s# %v\n", body, err))
			}
		}
	}
	saveObjects(ctx, save)
}

func saveObjects(ctx context.Context, save func(name, text string)) {
	var clusters v1alpha1.PeerCacheClusterList
	var events corev1.EventList
	for name, list := range map[string]client.ObjectList{"peercacheclusters.yaml": &clusters, "events.yaml": &events} {
		err := kube.List(ctx, list)
		text, _ := yaml.Marshal(list)
		save(name, fmt.Sprintf("%s# %v\n", text, err))
	}
	for _, e := range events.Items {
		if e.Type != corev1.EventTypeNormal && (e.Namespace == namespace || e.Namespace == systemNamespace) {
			GinkgoWriter.Printf("event %s %s %s: %s\n", e.LastTimestamp.Format(time.TimeOnly), e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
}

func tail(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	for i, line := range lines {
		lines[i] = line[:min(len(line), 300)]
	}
	return strings.Join(lines, "\n")
}
