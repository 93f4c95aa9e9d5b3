// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/peercache/peercache/api/v1alpha1"
)

// rotationName is the time format of the values of the annotation.
const rotationName = "20060102T150405Z"

func (p *plugin) rotateCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rotate NAME",
		GroupID: groupOperate,
		Short:   "Replace the token by which members trust each other",
		Example: "  kubectl peercache rotate kv -n inference",
		Long: "Set the annotation " + v1alpha1.AnnotationRotateToken + " of a PeerCacheCluster. The operator then replaces the token in " +
			"three\nsteps. It restarts no member and refuses none. After ten minutes members refuse processes that have only the previous token.",
		Args: exactlyOne("the NAME of one PeerCacheCluster", "see kubectl get pcc"),
		RunE: func(command *cobra.Command, args []string) error { return p.rotate(command.Context(), args) },
	}
}

func (p *plugin) rotate(ctx context.Context, names []string) error {
	a, cluster, err := p.oneCluster(ctx, names)
	if err != nil {
		return err
	}
	if err := checkRotation(cluster); err != nil {
		return err
	}
	value := p.now().UTC().Format(rotationName)
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationRotateToken: value}}}
	if err := a.patchWith(ctx, cluster, patch); err != nil {
		return explain(err, "annotating PeerCacheCluster "+cluster.Name)
	}
	_, err = fmt.Fprintf(p.Out, "%s: rotation %s of the token is requested; after ten minutes members refuse processes that have only the previous one\n"+
		"next: kubectl wait -n %s pcc/%s --for=jsonpath='{.status.rotatedToken}'=%s --timeout=15m\n",
		identityOf(cluster), value, cluster.Namespace, cluster.Name, value)
	return err
}

// checkRotation returns an error where the operator has nothing to rotate now.
func checkRotation(cluster *v1alpha1.PeerCacheCluster) error {
	name, security := identityOf(cluster), cluster.Spec.Security
	switch asked := cluster.Annotations[v1alpha1.AnnotationRotateToken]; {
	case security.Peers == v1alpha1.PeersInsecure:
		return fmt.Errorf("members of %s prove no token: remove spec.security.peers: Insecure, and the operator draws one", name)
	case security.Token != nil:
		return fmt.Errorf("the token of %s is in Secret %s, which you manage: write the new token into it (docs/security-settings.md)",
			name, security.Token.SecretName)
	case asked != cluster.Status.RotatedToken:
		return fmt.Errorf("rotation %s of the token of %s is under way: wait until condition %s has reason Token",
			asked, name, v1alpha1.ConditionPeersAuthenticated)
	default:
		return nil
	}
}
