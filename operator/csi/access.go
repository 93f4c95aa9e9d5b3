// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// access decides which sockets of a cluster a pod may have. Everyone who may create pods can write a volume, so the cluster
// decides: it must give its sockets to CSI volumes, and serve the namespace of the pod.
type access struct{ live client.Reader }

// socketDirOf returns the directory of the sockets that a pod may have, or why it may have none. With tenants it is the folder of
// the pod's namespace, which the kubelet names and not the author of the pod.
//
// It reads the cluster each time, because a volume is published once in the life of a pod. While the API server does not
// answer, the kubelet retries.
func (a access) socketDirOf(ctx context.Context, v volume) (socketDir, error) {
	cluster := &v1alpha1.PeerCacheCluster{}
	switch err := a.live.Get(ctx, v.cluster, cluster); {
	case apierrors.IsNotFound(err):
		return socketDir{}, status.Errorf(codes.NotFound, "PeerCacheCluster %s does not exist: create it, or correct volumeAttributes", v.cluster)
	case err != nil:
		return socketDir{}, status.Errorf(codes.Unavailable, "reading PeerCacheCluster %s: %v", v.cluster, err)
	case cluster.Spec.Injection.Socket != v1alpha1.SocketCSI:
		return socketDir{}, status.Errorf(codes.PermissionDenied, "PeerCacheCluster %s does not give its sockets to CSI volumes "+
			"(spec.injection.socket is %q): write injection.socket: CSI, or recreate the pod if that was changed", v.cluster,
			cluster.Spec.Injection.Socket)
	}
	if reason := inject.RefusesNamespace(ctx, a.live, cluster, v.podNamespace); reason != "" {
		return socketDir{}, status.Error(codes.PermissionDenied, reason)
	}
	if plan.Isolated(cluster.Spec.Sharing) {
		return socketDir{relative(plan.HostTenantsDir(v.cluster.Namespace, v.cluster.Name)), v.podNamespace}, nil
	}
	return socketDir{relative(plan.HostSocketDir(v.cluster.Namespace, v.cluster.Name)), ""}, nil
}

// relative returns a path on the machine relative to the directory of all sockets.
func relative(path string) string { return strings.TrimPrefix(path, plan.SocketDir+"/") }

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
