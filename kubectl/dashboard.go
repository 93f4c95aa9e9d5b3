// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// forwardPause is the time between two rounds over the discovery hosts.
	forwardPause = 2 * time.Second
	// forwardRounds bounds the rounds in which no host could be reached: a roll of the hosts takes less.
	forwardRounds = 15
)

func (p *plugin) dashboardCommand() *cobra.Command {
	var port uint16
	var open bool
	command := &cobra.Command{
		Use:     "dashboard [NAME]",
		GroupID: groupShow,
		Short:   "Open the dashboard of the cluster in a browser of this machine",
		Example: "  kubectl peercache dashboard kv -n inference --open",
		Long: "Forward a port of this machine's loopback to a discovery host, and print the address of the dashboard there. When the\n" +
			"host leaves, another one takes its place behind the same address. Ctrl-C ends it.",
		Args: atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			return p.dashboard(command.Context(), names, port, open)
		},
	}
	command.Flags().Uint16Var(&port, "port", 0, "port of this machine; 0 takes a free one")
	command.Flags().BoolVar(&open, "open", false, "also open it in the browser")
	return command
}

func (p *plugin) dashboard(ctx context.Context, names []string, port uint16, open bool) error {
	a, cluster, err := p.oneCluster(ctx, names)
	if err != nil {
		return err
	}
	for failed := 0; failed < forwardRounds; {
		var pods []*corev1.Pod
		if pods, err = a.nodePods(ctx, cluster); err == nil {
			var served bool
			served, err = p.forwardToOne(ctx, a, cluster, discoveryHosts(pods), &port, open)
			if served {
				failed, open = 0, false
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Ctrl-C ends it
		case errors.Is(err, errNoPort):
			return err
		}
		failed++
		if failed == 1 {
			_, _ = fmt.Fprintf(p.ErrOut, "%v; trying the discovery hosts of %s again\n", err, identityOf(cluster))
		}
		if p.sleep(ctx, forwardPause) != nil {
			return nil //nolint:nilerr // Ctrl-C ends it
		}
	}
	return fmt.Errorf("no discovery host of %s can be reached: %w", identityOf(cluster), err)
}

// forwardToOne forwards to the first host that can be reached, until that ends. It keeps the port for the next time.
// served is true when connections were taken.
func (p *plugin) forwardToOne(
	ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, hosts []*corev1.Pod, port *uint16, open bool,
) (served bool, err error) {
	err = errors.New("no member runs")
	slices.SortStableFunc(hosts, func(a, b *corev1.Pod) int { return cmp.Compare(rank(a), rank(b)) })
	for _, pod := range hosts {
		err = a.pods.forward(ctx, pod, cluster.Spec.Monitoring.Port, *port, func(local uint16) {
			served, *port = true, local
			address := fmt.Sprintf("http://%s:%d/", loopback, local)
			_, _ = fmt.Fprintf(p.Out, "%s: %s (pod %s; Ctrl-C ends it)\n", identityOf(cluster), address, pod.Name)
			if open {
				p.browse(ctx, address)
			}
		})
		if served || ctx.Err() != nil || errors.Is(err, errNoPort) {
			return served, err
		}
	}
	return served, err
}

// rank is lower for pods that are ready.
func rank(pod *corev1.Pod) int {
	if podReady(pod) {
		return 0
	}
	return 1
}

// browse opens the address. Where no browser can be started, the address that is printed is enough.
func (p *plugin) browse(ctx context.Context, address string) {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	if err := exec.CommandContext(ctx, opener, address).Start(); err != nil { //nolint:gosec // both are ours
		_, _ = fmt.Fprintf(p.ErrOut, "no browser was opened (%v): open the address yourself\n", err)
	}
}
