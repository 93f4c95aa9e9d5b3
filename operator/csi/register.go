// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/peercache/peercache/operator/plan"
)

// registrar tells the kubelet the address of the driver. The kubelet finds it in its directory plugins_registry.
type registrar struct {
	registration.UnimplementedRegistrationServer

	endpoint string
	done     atomic.Bool
	refused  chan error
}

func newRegistrar(endpoint string) *registrar {
	return &registrar{endpoint: endpoint, refused: make(chan error, 1)}
}

// GetInfo implements registration.RegistrationServer.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: plan.CSIDriver, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus implements registration.RegistrationServer.
func (r *registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	r.done.Store(status.GetPluginRegistered())
	if status.GetPluginRegistered() {
		slog.Info("the kubelet has registered the driver", "driver", plan.CSIDriver)
		return &registration.RegistrationStatusResponse{}, nil
	}
	select {
	case r.refused <- fmt.Errorf("the kubelet has not registered %s: %s", plan.CSIDriver, status.GetError()):
	default: // an earlier refusal ends the driver already
	}
	return &registration.RegistrationStatusResponse{}, nil
}
