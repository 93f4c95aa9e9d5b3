// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"errors"
	"fmt"
	"strings"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Note is what nobody could look up, or what works otherwise than it seems.
type Note struct {
	// FillIn is true where the manifest has a value that has to be replaced.
	FillIn bool
	Text   string
}

func fillIn(format string, args ...any) Note { return Note{true, fmt.Sprintf(format, args...)} }

func look(format string, args ...any) Note { return Note{false, fmt.Sprintf(format, args...)} }

// attached is how ports reach pods.
type attached struct {
	by v1alpha1.RailAttachment
	// why is empty where nothing else is possible.
	why    string
	claims *Claims
	notes  []Note
}

// attach chooses how the ports reach pods: as options say; else by DRA where a driver publishes each port of each machine;
// else by SR-IOV where each has virtual functions, unless the API server shows that nothing hands these out; else shared.
func attach(machines []chosen, k Kubernetes, options Options) (attached, error) {
	noFunctions := withoutFunctions(machines)
	byDRA, noDevices := claimable(machines, k)
	switch options.Attachment {
	case v1alpha1.AttachmentSharedDevicePlugin:
		return attached{by: options.Attachment}, nil
	case v1alpha1.AttachmentSRIOV:
		if len(noFunctions) > 0 {
			return attached{}, fmt.Errorf("attachment SRIOV needs a virtual function with an RDMA device on each port:\n  %s",
				strings.Join(noFunctions, "\n  "))
		}
		return attached{by: options.Attachment, why: "--attachment names it"}, nil
	case v1alpha1.AttachmentDRA:
		switch {
		case !k.Asked:
			return attached{}, errors.New("attachment DRA needs what drivers publish, which the API server has: leave out --from")
		case byDRA == nil:
			return attached{}, fmt.Errorf("attachment DRA needs a driver that publishes each port:\n  %s\n"+
				"install a driver, or correct its filter; `kubectl get resourceslices` lists what it publishes", strings.Join(noDevices, "\n  "))
		}
		return attached{by: options.Attachment, why: "--attachment names it", claims: byDRA}, nil
	}
	if byDRA != nil {
		return attached{by: v1alpha1.AttachmentDRA, why: "driver " + byDRA.Driver + " publishes each port", claims: byDRA}, nil
	}
	var notes []Note
	if len(noDevices) > 0 && len(k.Slices) > 0 && !strings.HasPrefix(noDevices[0], noDriver) {
		notes = append(notes, look("attachment DRA is not possible: %s.", noDevices[0]))
	}
	made := fewestFunctions(machines)
	switch {
	case len(noFunctions) > 0 && made > 0:
		notes = append(notes, look("attachment SRIOV is not possible: %s.", noFunctions[0]))
	case len(noFunctions) > 0:
	case !k.Asked || len(functionResources(machines, k)) > 0:
		return attached{by: v1alpha1.AttachmentSRIOV, why: "each port has virtual functions", notes: notes}, nil
	default:
		for _, pool := range withoutRDMA(machines, k) {
			notes = append(notes, look("resource %s has functions of %s without isRdma, so pods would get no RDMA device: set isRdma for it.",
				pool.Resource, strings.Join(pool.Ports, ", ")))
		}
		notes = append(notes, look("each port has virtual functions, but no network, no SR-IOV policy and no configuration of the device "+
			"plugin names a resource of these machines that hands them out. --attachment SRIOV takes them anyway."))
	}
	return attached{by: v1alpha1.AttachmentSharedDevicePlugin, notes: notes}, nil
}

// addressed returns what the addresses of the ports lack where pods use the ports' subnets.
func addressed(machines []chosen, by v1alpha1.RailAttachment) error {
	if by == v1alpha1.AttachmentSRIOV {
		return nil // functions have addresses of their own, whatever the port has
	}
	var failures []error
	for _, m := range machines {
		for _, p := range m.rails {
			if err := checkAddress(p); err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", m.name, err))
				break
			}
		}
	}
	return errors.Join(failures...)
}
