// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
)

// access decides whether a pod may have the sockets of a cluster. Anybody who may create pods can write a volume, so the
// cluster itself is asked: it must hand its sockets out this way, and serve the pod's namespace.
type access struct{ live client.Reader }

// check asks anew each time: volumes are made once in the life of a pod. While the API server is away, the kubelet tries again.
func (a access) check(ctx context.Context, v volume) error {
	cluster := &v1alpha1.PeerCacheCluster{}
	switch err := a.live.Get(ctx, v.cluster, cluster); {
	case apierrors.IsNotFound(err):
		return status.Errorf(codes.NotFound, "PeerCacheCluster %s does not exist: create it, or correct volumeAttributes", v.cluster)
	case err != nil:
		return status.Errorf(codes.Unavailable, "reading PeerCacheCluster %s: %v", v.cluster, err)
	case cluster.Spec.Injection.Socket != v1alpha1.SocketCSI:
		return status.Errorf(codes.PermissionDenied, "PeerCacheCluster %s does not give its sockets to CSI volumes (spec.injection.socket "+
			"is %q): write injection.socket: CSI, or create the pod anew where that was changed", v.cluster, cluster.Spec.Injection.Socket)
	}
	if reason := inject.RefusesNamespace(ctx, a.live, cluster, v.podNamespace); reason != "" {
		return status.Error(codes.PermissionDenied, reason)
	}
	return nil
}

// clusterReader reads without a cache: requests are few.
func clusterReader(config func() (*rest.Config, error)) (client.Reader, error) {
	kubeconfig, err := config()
	if err != nil {
		return nil, fmt.Errorf("the API server is unknown: run in a pod, or set KUBECONFIG: %w", err)
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	reader, err := client.New(kubeconfig, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("setting up the client of the API server: %w", err)
	}
	return reader, nil
}
