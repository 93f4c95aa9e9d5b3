// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ message, says string }{
		"pod security": {`Error creating: pods "demo-default-x" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes (volume "sockets")`,
			"kubectl label namespace inference pod-security.kubernetes.io/enforce=privileged"},
		"a quota":           {`Error creating: pods "x" is forbidden: exceeded quota: team, requested: memory=4Gi`, "raise the ResourceQuota of namespace inference"},
		"a quota of limits": {`Error creating: pods "x" is forbidden: failed quota: team: must specify limits.cpu for: peercached`, "have it name what members request"},
		"a limit range":     {`Error creating: pods "x" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 4Gi`, "raise the LimitRange of namespace inference"},
		"OpenShift":         {`Error creating: pods "x" is forbidden: unable to validate against any security context constraint: [...]`, "SecurityContextConstraint"},
		"a webhook":         {`Error creating: admission webhook "validate.kyverno.svc" denied the request: no`, "leave out the pods of namespace inference"},
		"a policy":          {`Error creating: pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`, "have that policy leave out"},
		"something else":    {`Error creating: 50% is no share`, "(Error creating: 50% is no share): see kubectl describe daemonset -n inference demo-default"},
	} {
		t.Run(name, func(t *testing.T) {
			faults := refusalFaults([]Refusal{{DaemonSet: "demo-default", Namespace: "inference", Missing: 3, Message: c.message}})
			said := faults[0].String()
			if faults[0].members != 3 || !strings.HasPrefix(said, "DaemonSet demo-default: the API server refuses its pods, of which 3 are missing (Error") ||
				!strings.Contains(said, c.says) || strings.Contains(said, "%!") {
				t.Errorf("it says %q", said)
			}
		})
	}
}
