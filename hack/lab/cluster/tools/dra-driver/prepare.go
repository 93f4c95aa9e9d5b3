package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// driver remembers nothing: what it prepared for a claim is the claim's file, from which the container runtime reads
// what to add to a container.
type driver struct{}

const (
	cdiFolder = "/var/run/cdi"
	cdiKind   = driverName + "/port"
	// backing is a device that is the same on every machine: there are no ports behind the names.
	backing = "/dev/zero"
)

// specification is a file of the Container Device Interface, as far as it is used here.
type specification struct {
	Version string   `json:"cdiVersion"`
	Kind    string   `json:"kind"`
	Devices []device `json:"devices"`
}

type device struct {
	Name  string `json:"name"`
	Edits edits  `json:"containerEdits"`
}

type edits struct {
	DeviceNodes []deviceNode `json:"deviceNodes"`
}

type deviceNode struct {
	Path     string `json:"path"`
	HostPath string `json:"hostPath"`
}

func (driver) PrepareResourceClaims(
	_ context.Context, claims []*resourcev1.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		spec := specification{Version: "0.5.0", Kind: cdiKind}
		var result kubeletplugin.PrepareResult
		for _, allocated := range claim.Status.Allocation.Devices.Results {
			if allocated.Driver != driverName {
				continue
			}
			// The runtime remembers names of devices: they must be of this claim only.
			name := string(claim.UID) + "-" + allocated.Device
			spec.Devices = append(spec.Devices, device{Name: name, Edits: edits{
				DeviceNodes: []deviceNode{{Path: "/dev/ports/" + allocated.Device, HostPath: backing}},
			}})
			result.Devices = append(result.Devices, kubeletplugin.Device{
				Requests: []string{allocated.Request}, PoolName: allocated.Pool, DeviceName: allocated.Device,
				CDIDeviceIDs: []string{cdiKind + "=" + name},
			})
		}
		result.Err = write(claimFile(claim.UID), spec)
		results[claim.UID] = result
		log.Printf("prepared %s/%s: %d ports, error %v", claim.Namespace, claim.Name, len(result.Devices), result.Err)
	}
	return results, nil
}

func (driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(claimFile(claim.UID))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the kubelet may ask twice
		}
		results[claim.UID] = err
		log.Printf("unprepared %s/%s, error %v", claim.Namespace, claim.Name, err)
	}
	return results, nil
}

// HandleError hears of failures in the background; those that no retry mends end the program, to be seen.
func (driver) HandleError(_ context.Context, err error, message string) {
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		log.Fatalf("dra-driver: %s: %v", message, err)
	}
	log.Printf("%s: %v", message, err)
}

func claimFile(uid types.UID) string {
	return cdiFolder + "/" + driverName + "-" + string(uid) + ".json"
}

// write puts the file there as a whole, because the runtime watches the folder.
func write(file string, spec specification) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return fmt.Errorf("writing the claim's file: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("putting the claim's file in place: %w", err)
	}
	return nil
}
