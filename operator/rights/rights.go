// SPDX-License-Identifier: Apache-2.0

// Package rights decides which right the operator needs for an object, and who can grant it. It is pure.
//
// config/rbac/role.yaml has the rights to read. It is generated from the markers in the operator's code. The rights to write
// are split by feature in config/rights, and bound for the wanted features: rbac.* of the Helm chart. A missing right must not
// lead to endless retries: a condition names the feature, and how an administrator grants the right.
package rights

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/operator/inject/policy"
	"github.com/peercache/peercache/operator/plan"
)

// ReasonForbidden is the reason of a problem that a missing right causes.
const ReasonForbidden = "Forbidden"

// MonitoringGroup is the API group of the Prometheus Operator.
const MonitoringGroup = "monitoring.coreos.com"

// PolicyKinds are the kinds of a cluster's admission policy.
var PolicyKinds = []string{policy.Kind, policy.BindingKind}

// Forbidden explains the API server's answer 403. It may also come from a quota or an admission policy.
func Forbidden(doing, name string, kind schema.GroupKind, namespace string, err error) *plan.Problem {
	return &plan.Problem{Reason: ReasonForbidden, Message: fmt.Sprintf(
		"the API server does not let the operator %s %s (%v): %s; or change the quota or policy that refuses it",
		doing, name, err, GrantFor(kind, namespace))}
}

// GrantFor returns how an administrator grants the operator the right to write objects of a kind.
func GrantFor(kind schema.GroupKind, namespace string) string {
	grant := func(value, folder string) string {
		return fmt.Sprintf("set rbac.%s of the Helm chart, or apply config/rights/%s", value, folder)
	}
	switch {
	case slices.Contains(PolicyKinds, kind.Kind):
		return grant("admissionPolicies.enabled=true", "admission-policies")
	case kind == plan.NetworkKind.GroupKind():
		return grant("networks.enabled=true", "networks") + ", for namespace " + namespace +
			"; or name networks that exist in rails[].network.name instead of spec.provision.networks"
	case kind == schema.GroupKind{Kind: "Secret"}:
		return "let the operator keep Secrets in namespace " + namespace + ": " + grant("tokens.enabled=true", "tokens") +
			", with this namespace among rbac.namespaces if these name any"
	case kind == schema.GroupKind{Kind: "Pod"}:
		return "let the operator patch pods in namespace " + namespace + ": " + grant("pods.enabled=true", "pods") +
			", with this namespace among rbac.namespaces if these name any; or run it with --patch-pods=false"
	case kind.Group == MonitoringGroup:
		return grant("monitoring.enabled=true", "monitoring")
	default:
		return "let the operator work in namespace " + namespace + ": " + grant("namespaces", "nodes")
	}
}

// Optional is true where nodes work without objects of a kind.
func Optional(kind schema.GroupKind) bool {
	return slices.Contains(PolicyKinds, kind.Kind) || kind.Group == MonitoringGroup
}

// MaySkip is true where a pass may continue without an object: it is optional, and the operator may not write it.
func MaySkip(err error, object client.Object) bool {
	return IsForbidden(err) && Optional(KindOf(object))
}

// IsForbidden is true for an error of Forbidden.
func IsForbidden(err error) bool {
	var problem *plan.Problem
	return errors.As(err, &problem) && problem.Reason == ReasonForbidden
}

// KindOf is the kind of an object, by its TypeMeta.
func KindOf(object client.Object) schema.GroupKind {
	return object.GetObjectKind().GroupVersionKind().GroupKind()
}
