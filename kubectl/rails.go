// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

func (p *plugin) railsCommand() *cobra.Command {
	var out format
	command := &cobra.Command{
		Use:     "rails [NAME]",
		GroupID: groupShow,
		Short:   "List the RDMA ports of every member: state, NUMA node, bytes, failures",
		Example: "  kubectl peercache rails kv -n inference",
		Args:    atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			return p.forClusters(command.Context(), names, &out, func(
				ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, pods []*corev1.Pod,
			) (clusterReport, error) {
				return makeRails(identityOf(cluster), p.ask(ctx, a, cluster, pods))
			})
		},
	}
	out.addTo(command)
	return command
}

type railsReport struct {
	identity
	Nodes []nodeRails `json:"members"`
}

type nodeRails struct {
	Node string `json:"member"`
	// Transport is tcp or rdma, and Reason is why the node uses it.
	Transport string `json:"transport,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Rails     []rail `json:"rails"`
	// Error is why the node did not answer.
	Error string `json:"error,omitempty"`
}

type rail struct {
	Name string `json:"name"`
	Up   bool   `json:"up"`
	// Why is what a rail that is not up waits for, and the remedy.
	Why string `json:"why,omitempty"`
	// NUMANode is negative where it is not known.
	NUMANode  int    `json:"numaNode"`
	ReadBytes uint64 `json:"readBytes"`
	Failures  uint64 `json:"failures"`
}

func makeRails(name identity, answers []answer) (clusterReport, error) {
	if len(answers) == 0 {
		return nil, noAnswerError(name, nil, nil)
	}
	r := &railsReport{identity: name}
	for _, got := range answers {
		node := nodeRails{Node: nodeName(got.pod), Rails: []rail{}}
		if got.err != nil {
			node.Error = got.err.Error()
		} else {
			node.Transport, node.Reason = got.status.Transport.Kind, got.status.Transport.Reason
			for _, seen := range got.status.Transport.Rails {
				node.Rails = append(node.Rails,
					rail{seen.Name, seen.Up, seen.Why, seen.NUMANode, seen.ReadBytes, seen.QueuePairFailures})
			}
		}
		r.Nodes = append(r.Nodes, node)
	}
	return r, nil
}

func (r *railsReport) text(w io.Writer) {
	rails, down, without := 0, 0, 0
	t := newTable("MEMBER", "RAIL", "UP", "NUMA", "READ", "FAILURES", "NOTE").numbers(3, 4, 5)
	for _, node := range r.Nodes {
		if len(node.Rails) == 0 {
			without++
			note := node.Error
			if note == "" {
				note = node.Transport + ": " + node.Reason
			}
			t.add(node.Node, "", "", "", "", "", note)
		}
		for _, seen := range node.Rails {
			rails++
			numa, note := "", ""
			if seen.NUMANode >= 0 {
				numa = strconv.Itoa(seen.NUMANode)
			}
			if !seen.Up {
				down++
				note = "pages go over the member's other rails, or TCP: " +
					cmp.Or(seen.Why, "check cable, switch port and GID")
			}
			t.add(node.Node, seen.Name, yesNo(seen.Up), numa, size(seen.ReadBytes), count(float64(seen.Failures)), note)
		}
	}
	_, _ = fmt.Fprintf(w, "%s: %s on %s, %d down, %s without\n\n", r.identity, plural(rails, "rail"),
		plural(len(r.Nodes)-without, "member"), down, plural(without, "member"))
	t.write(w)
}
