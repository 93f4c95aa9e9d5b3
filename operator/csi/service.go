// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/peercache/peercache/operator/plan"
)

// service implements the driver for the kubelet. Volumes that live as long as a pod need no other calls, which return
// Unimplemented.
type service struct {
	csispec.UnimplementedIdentityServer
	csispec.UnimplementedNodeServer

	machine    string
	pods       string // the kubelet's directory of pods
	access     access
	mounts     mounts
	registered func() bool
}

// GetPluginInfo implements csi.IdentityServer.
func (s *service) GetPluginInfo(context.Context, *csispec.GetPluginInfoRequest) (*csispec.GetPluginInfoResponse, error) {
	return &csispec.GetPluginInfoResponse{Name: plan.CSIDriver, VendorVersion: version}, nil
}

// GetPluginCapabilities implements csi.IdentityServer: the driver has ephemeral volumes only.
func (s *service) GetPluginCapabilities(
	context.Context, *csispec.GetPluginCapabilitiesRequest,
) (*csispec.GetPluginCapabilitiesResponse, error) {
	return &csispec.GetPluginCapabilitiesResponse{}, nil
}

// Probe implements csi.IdentityServer.
func (s *service) Probe(context.Context, *csispec.ProbeRequest) (*csispec.ProbeResponse, error) {
	return &csispec.ProbeResponse{Ready: wrapperspb.Bool(s.registered())}, nil
}

// NodeGetInfo implements csi.NodeServer.
func (s *service) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return &csispec.NodeGetInfoResponse{NodeId: s.machine}, nil
}

// NodeGetCapabilities implements csi.NodeServer: volumes are mounted in one step.
func (s *service) NodeGetCapabilities(
	context.Context, *csispec.NodeGetCapabilitiesRequest,
) (*csispec.NodeGetCapabilitiesResponse, error) {
	return &csispec.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume implements csi.NodeServer.
func (s *service) NodePublishVolume(
	ctx context.Context, request *csispec.NodePublishVolumeRequest,
) (*csispec.NodePublishVolumeResponse, error) {
	wanted, err := parsePublish(request, s.pods)
	if err != nil {
		return nil, err
	}
	source, err := s.access.socketDirOf(ctx, wanted)
	if err != nil {
		return nil, err
	}
	if err := s.mounts.publish(source, wanted.target); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csispec.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume implements csi.NodeServer.
func (s *service) NodeUnpublishVolume(
	_ context.Context, request *csispec.NodeUnpublishVolumeRequest,
) (*csispec.NodeUnpublishVolumeResponse, error) {
	if err := checkVolume(request.GetVolumeId(), request.GetTargetPath(), s.pods); err != nil {
		return nil, err
	}
	if err := s.mounts.unpublish(request.GetTargetPath()); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csispec.NodeUnpublishVolumeResponse{}, nil
}

// logged logs the calls that change a mount, and failed calls.
func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	var what []any
	switch r := request.(type) {
	case *csispec.NodePublishVolumeRequest:
		what = []any{"target", r.GetTargetPath(), "attributes", r.GetVolumeContext()}
	case *csispec.NodeUnpublishVolumeRequest:
		what = []any{"target", r.GetTargetPath()}
	}
	switch {
	case err != nil:
		slog.Error(info.FullMethod, append(what, "error", err.Error())...)
	case what != nil:
		slog.Info(info.FullMethod, what...)
	}
	return answer, err
}
