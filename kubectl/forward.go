// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// loopback is the only address that forwards listen at: who reaches it sees what the node's own machine sees.
const loopback = "127.0.0.1"

// forward listens at local of this machine's loopback, or at a free port where local is 0. It calls ready with the port
// when connections are taken. It returns nil when ctx is done, and an error when the pod cannot be reached any more.
func (t *apiServerPods) forward(ctx context.Context, pod *corev1.Pod, remote int32, local uint16, ready func(local uint16)) error {
	doing := "forwarding a port to pod " + pod.Name
	dialer, err := t.dialer(pod)
	if err != nil {
		return explain(err, doing)
	}
	stop, listening := make(chan struct{}), make(chan struct{})
	var complaints bytes.Buffer
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{loopback}, []string{fmt.Sprintf("%d:%d", local, remote)},
		stop, listening, nil, &complaints)
	if err != nil {
		return explain(err, doing)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err = <-ended:
		if strings.Contains(complaints.String(), "Unable to listen") {
			return fmt.Errorf("%w: port %d of this machine is taken: choose another with --port, or leave --port out", errNoPort, local)
		}
		return explain(err, doing)
	case <-listening:
	case <-ctx.Done():
		close(stop)
		return nil
	}
	ports, err := forwarder.GetPorts()
	if err == nil {
		ready(ports[0].Local)
		select {
		case err = <-ended:
			return explain(err, doing)
		case <-ctx.Done():
		}
	}
	close(stop)
	<-ended //nolint:errcheck // of what was ended here
	return err
}

// errNoPort is an error that another pod does not mend.
var errNoPort = errors.New("listening")

// dialer uses WebSocket like kubectl, and falls back to SPDY where a proxy does not pass WebSocket.
func (t *apiServerPods) dialer(pod *corev1.Pod) (httpstream.Dialer, error) {
	url := t.clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).
		SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(t.config)
	if err != nil {
		return nil, err
	}
	direct := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, t.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(tunnel, direct, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
