// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

func (p *plugin) disksCommand() *cobra.Command {
	var out format
	command := &cobra.Command{
		Use:     "disks [NAME]",
		GroupID: groupShow,
		Short:   "List the drives of every member: state, size, and why one is off",
		Example: "  kubectl peercache disks kv -n inference",
		Args:    atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			return p.forClusters(command.Context(), names, &out, func(
				ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, pods []*corev1.Pod,
			) (clusterReport, error) {
				return makeDisks(identityOf(cluster), p.ask(ctx, a, cluster, pods))
			})
		},
	}
	out.addTo(command)
	return command
}

type disksReport struct {
	identity
	Nodes []nodeDisks `json:"members"`
}

type nodeDisks struct {
	Node          string `json:"member"`
	Pages         uint64 `json:"pages"`
	CapacityBytes uint64 `json:"capacityBytes"`
	UsedBytes     uint64 `json:"usedBytes"`
	// BudgetLeftBytes is what may be written now; null without a bound, or without drives.
	BudgetLeftBytes *float64 `json:"budgetLeftBytes"`
	Disks           []disk   `json:"disks"`
	// Error is why the node did not answer.
	Error string `json:"error,omitempty"`
}

type disk struct {
	// Name is disk0, disk1 and so on, in the order of spec.disk.hostPath. Source is the folder of the machine, or the claim as
	// pvc/NAME.
	Name   string `json:"name"`
	Source string `json:"source"`
	On     bool   `json:"on"`
	Bytes  uint64 `json:"bytes"`
	// Recovered is false while the node still reads which pages the drive has.
	Recovered bool   `json:"recovered"`
	IO        string `json:"io"`
	// Why is why the drive is off, or why its file began empty.
	Why string `json:"why,omitempty"`
}

func makeDisks(name identity, answers []answer) (clusterReport, error) {
	if len(answers) == 0 {
		return nil, noAnswerError(name, nil, nil)
	}
	r := &disksReport{identity: name}
	for _, got := range answers {
		node := nodeDisks{Node: nodeName(got.pod), Disks: []disk{}}
		if got.err != nil {
			node.Error = got.err.Error()
		} else if seen := got.status.Disk; seen != nil {
			node.Pages, node.CapacityBytes, node.UsedBytes, node.BudgetLeftBytes = seen.Pages, seen.CapacityBytes, seen.UsedBytes, seen.BudgetLeftBytes
			for _, device := range seen.Devices {
				name := path.Base(device.Path)
				node.Disks = append(node.Disks,
					disk{name, diskSource(got.pod, name), device.On, device.Bytes, device.Recovered, device.IO, device.Why})
			}
		}
		r.Nodes = append(r.Nodes, node)
	}
	return r, nil
}

// diskSource says what stands behind a drive of a pod; "" where that is not known.
func diskSource(pod *corev1.Pod, name string) string {
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.Name != name:
		case volume.HostPath != nil:
			return volume.HostPath.Path
		case volume.Ephemeral != nil:
			return "pvc/" + pod.Name + "-" + name
		}
	}
	return ""
}

func (r *disksReport) text(w io.Writer) {
	disks, off, without := 0, 0, 0
	t := newTable("MEMBER", "DISK", "SOURCE", "ON", "SIZE", "RECOVERED", "NOTE").numbers(4)
	for _, node := range r.Nodes {
		if len(node.Disks) == 0 {
			without++
			t.add(node.Node, "", "", "", "", "", node.Error)
		}
		for _, seen := range node.Disks {
			disks++
			if !seen.On {
				off++
			}
			t.add(node.Node, seen.Name, seen.Source, yesNo(seen.On), size(seen.Bytes), yesNo(seen.Recovered), strings.Trim(seen.Why+"; "+seen.IO, "; "))
		}
	}
	_, _ = fmt.Fprintf(w, "%s: %s on %s, %d off, %s without\n\n", r.identity, plural(disks, "disk"), plural(len(r.Nodes)-without, "member"), off,
		plural(without, "member"))
	t.write(w)
}
