// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// clusters returns the PeerCacheClusters that the command line selects, at least one.
func (p *plugin) clusters(ctx context.Context, a *access, names []string) ([]v1alpha1.PeerCacheCluster, error) {
	if p.allNamespaces && len(names) > 0 {
		return nil, errors.New("NAME and --all-namespaces exclude each other: name the namespace with -n")
	}
	var list v1alpha1.PeerCacheClusterList
	var options []client.ListOption
	if !p.allNamespaces {
		options = append(options, client.InNamespace(a.namespace))
	}
	if err := a.List(ctx, &list, options...); err != nil {
		return nil, explain(err, "listing PeerCacheClusters")
	}
	return chooseClusters(list.Items, names, a.namespace, p.allNamespaces)
}

// chooseClusters returns the cluster that names holds, or all clusters where names is empty.
func chooseClusters(
	all []v1alpha1.PeerCacheCluster, names []string, namespace string, allNamespaces bool,
) ([]v1alpha1.PeerCacheCluster, error) {
	switch {
	case len(all) == 0 && allNamespaces:
		return nil, errors.New("there is no PeerCacheCluster: create one, as in config/samples/minimal.yaml")
	case len(all) == 0:
		return nil, fmt.Errorf("namespace %s has no PeerCacheCluster: name its namespace with -n, or use -A for all", namespace)
	case len(names) == 0:
		return all, nil
	}
	var known []string
	for i := range all {
		if all[i].Name == names[0] {
			return all[i : i+1], nil
		}
		known = append(known, all[i].Name)
	}
	return nil, fmt.Errorf("namespace %s has no PeerCacheCluster %s; it has %s: write one of these names, or another namespace with -n",
		namespace, names[0], strings.Join(known, ", "))
}

// oneCluster connects, and returns the selected cluster, for commands that work on a single one.
func (p *plugin) oneCluster(ctx context.Context, names []string) (*access, *v1alpha1.PeerCacheCluster, error) {
	a, err := p.connect()
	if err != nil {
		return nil, nil, err
	}
	found, err := p.clusters(ctx, a, names)
	if err != nil {
		return nil, nil, err
	}
	if len(found) > 1 {
		var known []string
		for i := range found {
			known = append(known, found[i].Namespace+"/"+found[i].Name)
		}
		return nil, nil, fmt.Errorf("there are %d PeerCacheClusters (%s): write the NAME of one, and its namespace with -n",
			len(found), strings.Join(known, ", "))
	}
	return a, &found[0], nil
}

// identity is the beginning of every report about a cluster.
type identity struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func identityOf(cluster *v1alpha1.PeerCacheCluster) identity {
	return identity{cluster.Namespace, cluster.Name}
}

func (i identity) String() string { return i.Namespace + "/" + i.Name }

// arguments are what selects the cluster on another command line of the plug-in.
func (i identity) arguments() string { return i.Name + " -n " + i.Namespace }
