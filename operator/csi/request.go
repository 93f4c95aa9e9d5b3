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

// What the kubelet adds to a pod's own volume attributes, because podInfoOnMount of the CSIDriver asks for it. It overrules
// attributes of the same names that the pod's author wrote.
const (
	kubeletPrefix    = "csi.storage.k8s.io/"
	contextEphemeral = kubeletPrefix + "ephemeral"
	contextNamespace = kubeletPrefix + "pod.namespace"
)

// volume is what a pod asks for.
type volume struct {
	cluster      types.NamespacedName
	podNamespace string
	target       string
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// parsePublish reads a request whose volume attributes an author of pods wrote, so nothing in them is to be trusted.
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
		// Some runtimes (runc from 1.2 on) make a volume writable in the pod that is not asked for read-only, whatever is
		// mounted here; and who could write could put another socket in a node's place.
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
		return volume{}, invalid("the volume is not inline in a pod, or the kubelet does not say in whose (%s is %q, %s is %q): write it "+
			"under spec.volumes[].csi of the pod, and see that CSIDriver %s has podInfoOnMount: true",
			contextEphemeral, attributes[contextEphemeral], contextNamespace, attributes[contextNamespace], plan.CSIDriver)
	}
	for _, name := range []string{plan.CSINamespace, plan.CSICluster} {
		if problems := validation.IsDNS1123Label(attributes[name]); len(problems) > 0 {
			return volume{}, invalid("volumeAttributes.%s is %q, which is not the %s of a PeerCacheCluster: write one of those that "+
				"`kubectl get pcc -A` lists", name, attributes[name], map[string]string{plan.CSINamespace: "namespace", plan.CSICluster: "name"}[name])
		}
	}
	return volume{
		cluster:      types.NamespacedName{Namespace: attributes[plan.CSINamespace], Name: attributes[plan.CSICluster]},
		podNamespace: attributes[contextNamespace],
		target:       request.GetTargetPath(),
	}, nil
}

// checkVolume is what publishing and unpublishing have in common. A target elsewhere than in the kubelet's folder of pods
// would be lost in this container, or hide something of it.
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
