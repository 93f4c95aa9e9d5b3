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

// clusters are the PeerCacheClusters that the command line means, at least one.
func (p *plugin) clusters(ctx context.Context, a *access, names []string) ([]v1alpha1.PeerCacheCluster, error) {
	if p.everywhere && len(names) > 0 {
		return nil, errors.New("NAME and --all-namespaces exclude each other: name the namespace with -n")
	}
	var list v1alpha1.PeerCacheClusterList
	var options []client.ListOption
	if !p.everywhere {
		options = append(options, client.InNamespace(a.namespace))
	}
	if err := a.List(ctx, &list, options...); err != nil {
		return nil, explain(err, "listing PeerCacheClusters")
	}
	return chooseClusters(list.Items, names, a.namespace, p.everywhere)
}

// chooseClusters takes the named one out of those of a namespace, or all.
func chooseClusters(
	all []v1alpha1.PeerCacheCluster, names []string, namespace string, everywhere bool,
) ([]v1alpha1.PeerCacheCluster, error) {
	switch {
	case len(all) == 0 && everywhere:
		return nil, errors.New("there is no PeerCacheCluster: create one, as in config/samples/minimal.yaml")
	case len(all) == 0:
		return nil, fmt.Errorf("namespace %s has no PeerCacheCluster: name its namespace with -n, or use -A for all", namespace)
	case len(names) == 0:
		return all, nil
	}
	var there []string
	for i := range all {
		if all[i].Name == names[0] {
			return all[i : i+1], nil
		}
		there = append(there, all[i].Name)
	}
	return nil, fmt.Errorf("namespace %s has no PeerCacheCluster %s, but %s: write one of these, or another namespace with -n",
		namespace, names[0], strings.Join(there, ", "))
}

// oneCluster is for commands that work on a single one.
func (p *plugin) oneCluster(ctx context.Context, a *access, names []string) (*v1alpha1.PeerCacheCluster, error) {
	found, err := p.clusters(ctx, a, names)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		var there []string
		for i := range found {
			there = append(there, found[i].Namespace+"/"+found[i].Name)
		}
		return nil, fmt.Errorf("there are %d PeerCacheClusters (%s): write the NAME of one, and its namespace with -n",
			len(found), strings.Join(there, ", "))
	}
	return &found[0], nil
}

// identity begins what is reported about a cluster.
type identity struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func identityOf(cluster *v1alpha1.PeerCacheCluster) identity {
	return identity{cluster.Namespace, cluster.Name}
}

func (i identity) String() string { return i.Namespace + "/" + i.Name }

// arguments name the cluster on another command line of the plug-in.
func (i identity) arguments() string { return i.Name + " -n " + i.Namespace }
