// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/kubectl/discover"
	"github.com/peercache/peercache/operator/machine"
	"github.com/peercache/peercache/operator/plan"
)

// discoverFlags are the flags of discover.
type discoverFlags struct {
	name, selector, from, image, networks, attachment string
	ports                                             discover.Options
	timeout                                           time.Duration
}

// The values of --networks: who makes the device plug-in and the networks.
const (
	networksByOperator = "operator"
	networksByYou      = "you"
)

// attachments are the values of --attachment.
var attachments = []v1alpha1.RailAttachment{
	v1alpha1.AttachmentSharedDevicePlugin, v1alpha1.AttachmentSRIOV, v1alpha1.AttachmentDRA,
}

func (p *plugin) discoverCommand() *cobra.Command {
	flags := discoverFlags{name: "kv", selector: "peercache.io/node=true", networks: networksByOperator, timeout: 2 * time.Minute}
	command := &cobra.Command{
		Use:     "discover [NODE...]",
		GroupID: groupSetUp,
		Short:   "Read the RDMA ports of nodes, and write a PeerCacheCluster for them",
		Example: "  kubectl peercache discover gpu-1 gpu-2 > kv.yaml",
		Long: "Inspect the named Kubernetes nodes, or those that --selector matches, and print the manifest of a PeerCacheCluster\n" +
			"for them: a rail for each port that carries pages, a group for each NUMA node, networks, huge pages. Rails are attached\n" +
			"by DRA where a driver publishes the ports, by SRIOV where they have virtual functions, and else shared. Comments name the\n" +
			"ports were left out, and why, and what to fill in. It makes no PeerCacheCluster. On each node it runs a pod of the\n" +
			"operator's image for some seconds, which sees the network of the machine and has no other right; with --from it asks no\n" +
			"API server.",
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
	set.StringVar(&flags.attachment, "attachment", "", "how ports reach pods: SharedDevicePlugin, SRIOV or DRA; left out: what suits the machines")
	set.StringVar(&flags.networks, "networks", flags.networks, "who creates device plugin and networks: operator, or you, for manifests of both")
	set.StringVar(&flags.image, "image", "", "the operator's image, where you have no permission to read its Deployment")
	set.DurationVar(&flags.timeout, "timeout", flags.timeout, "limit for the pods")
	return command
}

func (p *plugin) discover(ctx context.Context, nodes []string, flags discoverFlags) (string, error) {
	if flags.networks != networksByOperator && flags.networks != networksByYou {
		return "", fmt.Errorf("--networks is %q: write operator or you", flags.networks)
	}
	flags.ports.Attachment = v1alpha1.RailAttachment(flags.attachment)
	if flags.attachment != "" && !slices.Contains(attachments, flags.ports.Attachment) {
		return "", fmt.Errorf("--attachment is %q: write SharedDevicePlugin, SRIOV or DRA, or leave it out", flags.attachment)
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
	var kubernetes discover.Kubernetes
	if flags.from != "" {
		machines, err = readFolders(flags.from)
	} else {
		machines, kubernetes, err = p.askMachines(ctx, nodes, selector, flags)
	}
	if err != nil {
		return "", err
	}
	found, err := discover.Decide(machines, kubernetes, flags.ports)
	if err != nil {
		return "", err
	}
	for _, note := range found.Notes {
		if note.FillIn {
			_, _ = fmt.Fprintf(p.ErrOut, "fill in %s\n", note.Text)
		}
	}
	cluster := discover.Cluster{Name: flags.name, Namespace: namespace, Selector: selector, Provision: true}
	text, err := discover.Manifest(found, cluster)
	if err != nil || flags.networks == networksByOperator || found.Attachment == v1alpha1.AttachmentDRA {
		return text, err
	}
	provisioned, err := provisionedObjects(text)
	if err != nil {
		return "", err
	}
	functions, err := functionPlugin(found, kubernetes)
	if err != nil {
		return "", err
	}
	cluster.Provision = false
	text, err = discover.Manifest(found, cluster)
	return provisioned + functions + text, err
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
		text, err := document(object)
		documents += text
		return err
	}
	for _, extra := range desired.Extras {
		var err error
		switch object := extra.(type) {
		case *corev1.ConfigMap:
			err = add(configMap("rdma-devices", object.Data))
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

// functionPlugin writes a configuration of the SR-IOV network device plugin for rails whose resources are not known.
func functionPlugin(found *discover.Found, k discover.Kubernetes) (string, error) {
	config, err := discover.PluginConfig(found, k)
	if err != nil || config == "" {
		return "", err
	}
	return document(configMap(pluginConfig.Name, map[string]string{pluginConfigKey: config}))
}

// configMap is the configuration of a device plug-in.
func configMap(name string, data map[string]string) any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": map[string]any{"name": name, "namespace": "kube-system"},
	}
}

// document is an object as YAML, before another one.
func document(object any) (string, error) {
	text, err := yaml.Marshal(object)
	return string(text) + "---\n", err
}

// machineName is the name of a pod's machine for messages.
func machineName(pod *corev1.Pod) string { return cmp.Or(pod.Spec.NodeName, pod.Name) }
