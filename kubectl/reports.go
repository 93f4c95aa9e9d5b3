// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// clusterReport is the report of one cluster.
type clusterReport interface{ report }

// clusterReports are the reports of several clusters.
type clusterReports struct {
	Clusters []clusterReport `json:"clusters"`
}

func (r clusterReports) text(w io.Writer) {
	for i, cluster := range r.Clusters {
		if i > 0 {
			_, _ = fmt.Fprintln(w)
		}
		cluster.text(w)
	}
}

// forClusters makes and prints the report of every selected cluster. After an error with one cluster, it still prints the
// reports of the others.
func (p *plugin) forClusters(ctx context.Context, names []string, out *format, make func(
	ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, pods []*corev1.Pod,
) (clusterReport, error)) error {
	a, err := p.connect()
	if err != nil {
		return err
	}
	clusters, err := p.clusters(ctx, a, names)
	if err != nil {
		return err
	}
	var reports clusterReports
	var failures []error
	for i := range clusters {
		pods, err := a.nodePods(ctx, &clusters[i])
		if err == nil {
			var one clusterReport
			if one, err = make(ctx, a, &clusters[i], pods); err == nil {
				reports.Clusters = append(reports.Clusters, one)
			}
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	if len(reports.Clusters) > 0 {
		if err := out.print(p.Out, reports); err != nil {
			return err
		}
	}
	return errors.Join(failures...)
}
