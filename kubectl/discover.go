// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/kubectl/discover"
	"github.com/peercache/peercache/operator/machine"
	"github.com/peercache/peercache/operator/plan"
)

// discoverFlags are the flags of discover.
type discoverFlags struct {
	name, selector, from, image, networks string
	ports                                 discover.Options
	timeout                               time.Duration
}

// The values of --networks: who makes the device plug-in and the networks.
const (
	networksByOperator = "operator"
	networksByYou      = "you"
)

func (p *plugin) discoverCommand() *cobra.Command {
	flags := discoverFlags{name: "kv", selector: "peercache.io/node=true", networks: networksByOperator, timeout: 2 * time.Minute}
	command := &cobra.Command{
		Use:   "discover [NODE...]",
		Short: "Looks at the RDMA ports of machines, and writes the PeerCacheCluster for them",
		Long: "Looks at Kubernetes nodes, those that it names or those of --selector, and prints the manifest of a PeerCacheCluster\n" +
			"for them: a rail for each port that carries pages, a group for each NUMA node, networks, huge pages. Comments say which\n" +
			"ports were left out, and why. It makes no PeerCacheCluster. On each node it runs a pod of the operator's image for some\n" +
			"seconds, which sees the network of the machine and has no other right; with --from it asks no API server.",
		RunE: func(command *cobra.Command, nodes []string) error {
			text, err := p.discover(command.Context(), nodes, flags)
			if err == nil {
				_, err = fmt.Fprint(p.Out, text)
			}
			return err
		},
	}
	set := command.Flags()
	set.StringVar(&flags.name, "name", flags.name, "name of the PeerCacheCluster")
	set.StringVarP(&flags.selector, "selector", "l", flags.selector, "labels of the machines, also in the manifest")
	set.StringVar(&flags.from, "from", "", "folder with sys and proc of a machine, such as /, or with such a folder for each machine")
	set.StringSliceVar(&flags.ports.Only, "only", nil, "interfaces or RDMA devices that are rails, and no other")
	set.StringSliceVar(&flags.ports.Without, "without", nil, "interfaces or RDMA devices that are no rails")
	set.StringVar(&flags.networks, "networks", flags.networks, "who makes device plug-in and networks: operator, or you, for manifests of both")
	set.StringVar(&flags.image, "image", "", "the operator's image, where its Deployment may not be read")
	set.DurationVar(&flags.timeout, "timeout", flags.timeout, "limit for the pods")
	return command
}

func (p *plugin) discover(ctx context.Context, nodes []string, flags discoverFlags) (string, error) {
	if flags.networks != networksByOperator && flags.networks != networksByYou {
		return "", fmt.Errorf("--networks is %q: write operator or you", flags.networks)
	}
	selector, err := labels.ConvertSelectorToLabelsMap(flags.selector)
	if err != nil {
		return "", fmt.Errorf("--selector is %q: %w: write for example peercache.io/node=true", flags.selector, err)
	}
	namespace, _, err := p.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w: check --kubeconfig, --context and KUBECONFIG", err)
	}
	var machines []machine.Machine
	if flags.from != "" {
		machines, err = readFolders(flags.from)
	} else {
		machines, err = p.askMachines(ctx, nodes, selector, flags)
	}
	if err != nil {
		return "", err
	}
	found, err := discover.Decide(machines, flags.ports)
	if err != nil {
		return "", err
	}
	cluster := discover.Cluster{Name: flags.name, Namespace: namespace, Selector: selector, Provision: true}
	text, err := discover.Manifest(found, cluster)
	if err != nil || flags.networks == networksByOperator {
		return text, err
	}
	provisioned, err := provisionedObjects(text)
	if err != nil {
		return "", err
	}
	cluster.Provision = false
	text, err = discover.Manifest(found, cluster)
	return provisioned + text, err
}

// readFolders reads a machine from a folder with sys and proc, or one from each folder in it.
func readFolders(from string) ([]machine.Machine, error) {
	folders := []string{from}
	if _, err := os.Stat(filepath.Join(from, "sys")); err != nil {
		if folders, err = filepath.Glob(filepath.Join(from, "*")); err != nil || len(folders) == 0 {
			return nil, fmt.Errorf("--from %s: no machine is there: name a folder with sys and proc, or with a folder of these for each machine", from)
		}
	}
	var machines []machine.Machine
	for _, folder := range folders {
		m, err := machine.Read(folder)
		if err != nil {
			return nil, fmt.Errorf("--from %s: %w", from, err)
		}
		m.Name = filepath.Base(folder)
		if host, err := os.Hostname(); err == nil && m.Name == "/" {
			m.Name = host
		}
		machines = append(machines, *m)
	}
	return machines, nil
}

// provisionedObjects writes what the operator would make for the manifest: the networks, and the configuration of the device
// plug-in under the name by which its own manifest mounts it.
func provisionedObjects(text string) (string, error) {
	cluster, err := parseCluster([]byte(text))
	if err != nil {
		return "", err
	}
	desired, err := plan.For(cluster, plan.Facts{})
	if err != nil {
		return "", err
	}
	var documents string
	add := func(object any) error {
		document, err := yaml.Marshal(object)
		documents += string(document) + "---\n"
		return err
	}
	for _, extra := range desired.Extras {
		var err error
		switch object := extra.(type) {
		case *corev1.ConfigMap:
			err = add(map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "data": object.Data,
				"metadata": map[string]any{"name": "rdma-devices", "namespace": "kube-system"},
			})
		case *unstructured.Unstructured:
			if object.GroupVersionKind() == plan.NetworkKind {
				object.SetOwnerReferences(nil)
				object.SetLabels(nil)
				err = add(object)
			}
		}
		if err != nil {
			return "", err
		}
	}
	return documents, nil
}

// machineName is the name of a pod's machine for messages.
func machineName(pod *corev1.Pod) string { return cmp.Or(pod.Spec.NodeName, pod.Name) }
