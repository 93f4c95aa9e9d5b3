// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// requestTimeout bounds one request to a node.
	requestTimeout = 10 * time.Second
	// maxAnswer bounds one answer: /metrics with thousands of series, /v1/status with ten thousand members.
	maxAnswer = 16 << 20
)

// access reads objects of the Kubernetes cluster, and reaches pods for what only they can tell.
type access struct {
	client.Reader
	// patch changes an object. The plug-in changes labels of machines, and a field and an annotation of PeerCacheClusters.
	patch func(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error
	// create and remove make and delete an object. The plug-in makes only the pods of discover, and deletes these.
	create func(ctx context.Context, object client.Object, options ...client.CreateOption) error
	remove func(ctx context.Context, object client.Object, options ...client.DeleteOption) error
	pods   podAccess
	// namespace is the value of -n, or the namespace of the kubeconfig.
	namespace string
}

// podAccess reaches pods through the API server.
type podAccess interface {
	// get fetches a path from the HTTP port of a pod.
	get(ctx context.Context, pod *corev1.Pod, port int32, path string) ([]byte, error)
	// exec runs a command in a container of the pod. A command that exits with another status than 0 is no error.
	exec(ctx context.Context, pod *corev1.Pod, container string, command ...string) (execResult, error)
	// logs returns the end of the log of a container, or of its previous run.
	logs(ctx context.Context, pod *corev1.Pod, options corev1.PodLogOptions) ([]byte, error)
	// forward passes connections to a port of this machine on to a port of the pod; see apiServerPods.forward.
	forward(ctx context.Context, pod *corev1.Pod, remote int32, local uint16, ready func(local uint16)) error
}

type execResult struct {
	stdout, stderr string
	status         int
}

// connect reads the kubeconfig. It sends no request to the API server.
func connect(flags *genericclioptions.ConfigFlags) (*access, error) {
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w: check --kubeconfig, --context and KUBECONFIG", err)
	}
	config, err := flags.ToRESTConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no kubeconfig has the address of the API server: set KUBECONFIG or --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w: check --kubeconfig, --context and KUBECONFIG", err)
	}
	// A command asks every node. With the default limit of the client, a thousand nodes take minutes.
	config.QPS, config.Burst = 100, 200
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	objects, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, explain(err, "connecting to "+config.Host)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, explain(err, "connecting to "+config.Host)
	}
	return &access{
		Reader: objects, patch: objects.Patch, create: objects.Create, remove: objects.Delete,
		pods: &apiServerPods{config, clientset}, namespace: namespace,
	}, nil
}

// apiServerPods implements podAccess through the API server.
type apiServerPods struct {
	config    *rest.Config
	clientset *kubernetes.Clientset
}

func (t *apiServerPods) get(ctx context.Context, pod *corev1.Pod, port int32, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := t.clientset.CoreV1().Pods(pod.Namespace).
		ProxyGet("http", pod.Name, strconv.Itoa(int(port)), path, nil).Stream(ctx)
	if err != nil {
		return nil, explain(err, "getting "+path+" of pod "+pod.Name)
	}
	return readAll(stream, "getting "+path+" of pod "+pod.Name)
}

func (t *apiServerPods) logs(ctx context.Context, pod *corev1.Pod, options corev1.PodLogOptions) ([]byte, error) {
	doing := "reading the log of pod " + pod.Name
	stream, err := t.clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &options).Stream(ctx)
	if err != nil {
		return nil, explain(err, doing)
	}
	return readAll(stream, doing)
}

func readAll(stream io.ReadCloser, doing string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(stream, maxAnswer))
	if closeErr := stream.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return text, nil
}

func (t *apiServerPods) exec(
	ctx context.Context, pod *corev1.Pod, container string, command ...string,
) (execResult, error) {
	doing := "running " + command[0] + " in pod " + pod.Name
	request := t.clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).
		SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: container, Command: command, Stdout: true, Stderr: true,
	}, clientgoscheme.ParameterCodec)
	executor, err := t.executor(request)
	if err != nil {
		return execResult{}, explain(err, doing)
	}
	var stdout, stderr bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	result := execResult{stdout: stdout.String(), stderr: stderr.String()}
	var exit utilexec.CodeExitError
	switch {
	case errors.As(err, &exit):
		result.status = exit.Code
		return result, nil
	case err != nil:
		return result, explain(err, doing)
	default:
		return result, nil
	}
}

// executor uses WebSocket like kubectl, and falls back to SPDY where a proxy does not pass WebSocket.
func (t *apiServerPods) executor(request *rest.Request) (remotecommand.Executor, error) {
	spdy, err := remotecommand.NewSPDYExecutor(t.config, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	websocket, err := remotecommand.NewWebSocketExecutor(t.config, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// explain adds to an error of the API server what the user can do about it.
func explain(err error, doing string) error {
	advice := ""
	var network *net.OpError
	switch {
	case apierrors.IsForbidden(err):
		advice = "ask for the permissions that docs/kubectl.md lists for this command"
	case apierrors.IsUnauthorized(err):
		advice = "log in again, or choose another --context"
	case meta.IsNoMatchError(err):
		advice = "PeerCache is not installed in this Kubernetes cluster: install it with Helm, or choose another --context"
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(err.Error(), "i/o timeout"):
		advice = "check that the machine is up, and try again"
	case errors.As(err, &network):
		advice = "check that the API server is up, --context and --kubeconfig"
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %s", doing, err, advice)
}
