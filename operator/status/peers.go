// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/truncate"
)

// maxRotation bounds the name of a rotation in a message: a user wrote it, and it may be long.
const maxRotation = 100

// peersAuthenticated says how members authenticate each other, and shows the step of a token rotation.
func peersAuthenticated(seen *Observed) metav1.Condition {
	const kind = v1alpha1.ConditionPeersAuthenticated
	security := seen.Cluster.Spec.Security
	asked := seen.Cluster.Annotations[v1alpha1.AnnotationRotateToken]
	switch {
	case security.Peers == v1alpha1.PeersInsecure && security.TLS != nil:
		return newCondition(kind, metav1.ConditionTrue, "Certificates", "members show certificates of Secret "+security.TLS.SecretName)
	case security.Peers == v1alpha1.PeersInsecure:
		return newCondition(kind, metav1.ConditionFalse, "Insecure", fmt.Sprintf("security.peers is Insecure: any process that reaches port %d of a member can read, change "+
			"and clear pages: remove security.peers, and members authenticate each other with a token", seen.Cluster.Spec.Discovery.Port))
	case security.Token != nil && asked != "":
		return newCondition(kind, metav1.ConditionTrue, "SecretNamed", fmt.Sprintf("members prove the token of Secret %s, which you manage, so the "+
			"annotation %s does nothing: write the new token into the Secret", security.Token.SecretName, v1alpha1.AnnotationRotateToken))
	case security.Token != nil:
		return newCondition(kind, metav1.ConditionTrue, "SecretNamed", fmt.Sprintf("members prove the token of Secret %s", security.Token.SecretName))
	case seen.Planned != nil:
		return newCondition(kind, metav1.ConditionUnknown, ReasonPlanOnly, "mode: Plan creates nothing")
	case seen.Token == nil:
		return newCondition(kind, metav1.ConditionUnknown, "ConfigNotAccepted", notChecked)
	case seen.Token.Step != 0:
		return newCondition(kind, metav1.ConditionTrue, "Rotating", fmt.Sprintf("token rotation %q is at step %d of 3; from %s on, "+
			"members refuse the previous token", truncate.Text(seen.Token.Rotation, maxRotation), seen.Token.Step, seen.Token.End().UTC().Format("15:04:05 MST")))
	default:
		return newCondition(kind, metav1.ConditionTrue, "Token", "members prove the token that the operator drew")
	}
}
