// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/peercache/peercache/operator/plan"
)

// The attributes that the kubelet adds to a pod's volume attributes, because the CSIDriver has podInfoOnMount. They override
// attributes of the same names in the pod.
const (
	kubeletPrefix    = "csi.storage.k8s.io/"
	contextEphemeral = kubeletPrefix + "ephemeral"
	contextNamespace = kubeletPrefix + "pod.namespace"
)

// volume is the volume that a pod asks for.
type volume struct {
	cluster      types.NamespacedName
	podNamespace string
	target       string
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// parsePublish checks a request. The author of a pod wrote its volume attributes, so they are not trusted.
func parsePublish(request *csispec.NodePublishVolumeRequest, pods string) (volume, error) {
	if err := checkVolume(request.GetVolumeId(), request.GetTargetPath(), pods); err != nil {
		return volume{}, err
	}
	switch capability := request.GetVolumeCapability(); {
	case capability == nil:
		return volume{}, invalid("volume_capability is missing: a volume of %s is mounted as a directory", plan.CSIDriver)
	case capability.GetBlock() != nil:
		return volume{}, invalid("volume_capability asks for a block device: a volume of %s is a directory, so mount it", plan.CSIDriver)
	case !request.GetReadonly():
		// Some runtimes (runc from 1.2 on) make a volume writable in a pod that does not ask for read-only, whatever the mount is. A
		// pod that can write could replace the socket of a node.
		return volume{}, invalid("the volume is not read-only: write readOnly: true under spec.volumes[].csi")
	}
	attributes := request.GetVolumeContext()
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if name != plan.CSINamespace && name != plan.CSICluster && !strings.HasPrefix(name, kubeletPrefix) {
			return volume{}, invalid("volumeAttributes has %q, which %s does not know: remove it, the attributes are %s and %s",
				name, plan.CSIDriver, plan.CSINamespace, plan.CSICluster)
		}
	}
	if attributes[contextEphemeral] != "true" || attributes[contextNamespace] == "" {
		return volume{}, invalid("the volume is not inline in a pod, or the kubelet does not send the pod's namespace (%s is %q, %s is %q): write it "+
			"under spec.volumes[].csi of the pod, and see that CSIDriver %s has podInfoOnMount: true",
			contextEphemeral, attributes[contextEphemeral], contextNamespace, attributes[contextNamespace], plan.CSIDriver)
	}
	for _, name := range []string{plan.CSINamespace, plan.CSICluster} {
		if problems := validation.IsDNS1123Label(attributes[name]); len(problems) > 0 {
			return volume{}, invalid("volumeAttributes.%s is %q, which is not the %s of a PeerCacheCluster: write one of those that "+
				"`kubectl get pcc -A` lists", name, attributes[name], map[string]string{plan.CSINamespace: "namespace", plan.CSICluster: "name"}[name])
		}
	}
	if problems := validation.IsDNS1123Label(attributes[contextNamespace]); len(problems) > 0 {
		return volume{}, invalid("%s is %q, which is not a namespace: the kubelet sends it, so check its version", contextNamespace,
			attributes[contextNamespace])
	}
	return volume{
		cluster:      types.NamespacedName{Namespace: attributes[plan.CSINamespace], Name: attributes[plan.CSICluster]},
		podNamespace: attributes[contextNamespace],
		target:       request.GetTargetPath(),
	}, nil
}

// checkVolume checks the fields that publishing and unpublishing share. A target outside the kubelet's directory of pods would
// stay in this container, or hide a directory of it.
func checkVolume(id, target, pods string) error {
	switch {
	case id == "":
		return invalid("volume_id is missing")
	case target == "":
		return invalid("target_path is missing")
	case filepath.Clean(target) != target || !strings.HasPrefix(target, pods+"/"):
		return invalid("target_path is %q, which is not below %s: run the driver with the kubelet's --root-dir as --kubelet-dir",
			target, pods)
	default:
		return nil
	}
}
