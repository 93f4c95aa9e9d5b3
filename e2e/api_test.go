// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// apiClient is the API server: objects, and what only the clientset can (exec, logs, proxy).
type apiClient struct {
	client.Client
	config    *rest.Config
	clientset *kubernetes.Clientset
	minor     int // of the API server's version, such as 36
}

func newAPIClient() (*apiClient, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, fmt.Errorf("reading KUBECONFIG=%q: %w", os.Getenv("KUBECONFIG"), err)
	}
	config.QPS, config.Burst = 100, 200
	scheme := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	version, err := clientset.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking %s for its version: %w", config.Host, err)
	}
	minor, err := strconv.Atoi(version.Minor)
	if err != nil {
		return nil, fmt.Errorf("%s is of minor version %q: %w", config.Host, version.Minor, err)
	}
	return &apiClient{Client: direct, config: config, clientset: clientset, minor: minor}, nil
}

// exec runs a command in a pod's first container and returns its standard output, also when it fails.
func (a *apiClient) exec(ctx context.Context, namespace, pod, stdin string, command ...string) (string, error) {
	request := a.clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).
		SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Command: command, Stdin: stdin != "", Stdout: true, Stderr: true,
	}, clientgoscheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(a.config, "GET", request.URL().String())
	if err != nil {
		return "", fmt.Errorf("preparing to run %s in pod %s: %w", command[0], pod, err)
	}
	var stdout, stderr bytes.Buffer
	streams := remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}
	if stdin != "" {
		streams.Stdin = strings.NewReader(stdin)
	}
	if err := executor.StreamWithContext(ctx, streams); err != nil {
		return stdout.String(), fmt.Errorf("running %s in pod %s: %w\n%s%s",
			strings.Join(command, " "), pod, err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// get fetches a path from a pod's port through the API server.
func (a *apiClient) get(ctx context.Context, namespace, pod string, port int, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	body, err := a.clientset.CoreV1().Pods(namespace).
		ProxyGet("http", pod, strconv.Itoa(port), path, nil).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting %s from pod %s: %w", path, pod, err)
	}
	return body, nil
}

// logs are a container's, or those of its run before with previous.
func (a *apiClient) logs(ctx context.Context, namespace, pod, container string, previous bool) (string, error) {
	stream, err := a.clientset.CoreV1().Pods(namespace).
		GetLogs(pod, &corev1.PodLogOptions{Container: container, Previous: previous}).Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("logs of %s/%s: %w", pod, container, err)
	}
	text, err := io.ReadAll(stream)
	if closeErr := stream.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", fmt.Errorf("logs of %s/%s: %w", pod, container, err)
	}
	return string(text), nil
}

func (a *apiClient) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := a.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", name, err)
	}
	return pod, nil
}

func ready(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
