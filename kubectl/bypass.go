// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

func (p *plugin) bypassCommand() *cobra.Command {
	var machine string
	var off bool
	command := &cobra.Command{
		Use:     "bypass [NAME]",
		GroupID: groupOperate,
		Short:   "Take the cache out of the way of engines, and keep the pages",
		Example: "  kubectl peercache bypass kv -n inference\n" +
			"  kubectl peercache bypass kv -n inference --off",
		Long: "Set spec.injection.bypass of a PeerCacheCluster; with --node, the label " + v1alpha1.LabelBypass + "=" + v1alpha1.BypassOn +
			" of a Kubernetes\nnode, for all clusters. SGLang pods then find nothing in the cache and store nothing, within five seconds. " +
			"Pages stay.\n--off brings the cache back.",
		Args: atMostOneName,
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case machine != "" && len(args) > 0:
				return errors.New("--node is for all PeerCacheClusters: leave NAME out, or --node")
			case machine != "":
				return p.bypassMachine(command.Context(), machine, off)
			case len(args) == 0:
				return errors.New("name what to bypass: the NAME of a PeerCacheCluster (see kubectl get pcc), or --node")
			default:
				return p.bypassCluster(command.Context(), args, off)
			}
		},
	}
	command.Flags().StringVar(&machine, "node", "", "a Kubernetes node instead of a PeerCacheCluster")
	command.Flags().BoolVar(&off, "off", false, "use the cache again")
	return command
}

func (p *plugin) bypassCluster(ctx context.Context, names []string, off bool) error {
	a, cluster, err := p.oneCluster(ctx, names)
	if err != nil {
		return err
	}
	value := v1alpha1.SwitchEnabled
	if off {
		value = v1alpha1.SwitchDisabled
	}
	patch := map[string]any{"spec": map[string]any{"injection": map[string]any{"bypass": value}}}
	if err := a.patchWith(ctx, cluster, patch); err != nil {
		return explain(err, "changing PeerCacheCluster "+cluster.Name)
	}
	return p.sayBypassed(identityOf(cluster).String(), off)
}

func (p *plugin) bypassMachine(ctx context.Context, name string, off bool) error {
	a, err := p.connect()
	if err != nil {
		return err
	}
	machine := &corev1.Node{}
	machine.Name = name
	var value any = v1alpha1.BypassOn
	if off {
		value = nil
	}
	patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LabelBypass: value}}}
	if err := a.patchWith(ctx, machine, patch); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("there is no Kubernetes node %s: see kubectl get nodes", name)
		}
		return explain(err, "labelling Kubernetes node "+name)
	}
	return p.sayBypassed("Kubernetes node "+name, off)
}

func (p *plugin) sayBypassed(what string, off bool) error {
	says := "SGLang pods run without the cache within five seconds, and pages stay; --off brings it back"
	if off {
		says = "SGLang pods use the cache again within five seconds"
	}
	_, err := fmt.Fprintf(p.Out, "%s: %s\n", what, says)
	return err
}

// patchWith sends a merge patch.
func (a *access) patchWith(ctx context.Context, object client.Object, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return a.patch(ctx, object, client.RawPatch(types.MergePatchType, data))
}
