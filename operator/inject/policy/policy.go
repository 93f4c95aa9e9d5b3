// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/engines/sglang"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/plan"
)

// Name is the name of a cluster's policy and of its binding. Both are cluster-scoped; no namespace contains a dot, so names
// are unique.
func Name(namespace, cluster string) string { return "peercache." + namespace + "." + cluster }

// For expresses inject.Inject for clusters in mode Node as CEL expressions, which give the same pod. The expressions are made
// of the flags, texts, containers and volumes of inject.Inject. facts are for pods of the cluster's own namespace, and
// otherFacts for pods of other namespaces.
//
// CEL cannot parse JSON, so the policy completes a user's extra config only where it is a flat object; see config.go.
//
// The cluster is the parameter of the binding. The rules use only its deletion timestamp. A policy whose cluster is gone,
// because the operator did not run, has no parameter and does nothing.
func For(facts, otherFacts inject.Facts, namespaces *metav1.LabelSelector) (
	*admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding,
) {
	name := Name(facts.Namespace, facts.Cluster)
	p := &builder{facts: facts, otherFacts: otherFacts}
	p.readPod()
	p.readContainers()
	p.readFlags()
	p.decideDelivery()
	p.decideFlags()
	p.decidePageSize()
	p.decideConfig()
	p.decideContainers()
	p.decidePod(namespaces)
	policy := &admissionv1.MutatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: Kind},
		ObjectMeta: objectMeta(facts),
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			ParamKind:        &admissionv1.ParamKind{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PeerCacheCluster"},
			MatchConstraints: pods(facts.Cluster),
			MatchConditions:  []admissionv1.MatchCondition{namespaceCondition(facts)},
			Variables:        p.variables,
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: p.patch()},
			}},
			// A failure of the policy must not block pods: SGLang also works without the cache.
			FailurePolicy: new(admissionv1.Ignore),
			// Later plug-ins may add arguments or containers.
			ReinvocationPolicy: admissionv1.IfNeededReinvocationPolicy,
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: BindingKind},
		ObjectMeta: objectMeta(facts),
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: name,
			ParamRef: &admissionv1.ParamRef{
				Name: facts.Cluster, Namespace: facts.Namespace, ParameterNotFoundAction: new(admissionv1.AllowAction),
			},
		},
	}
	return policy, binding
}

// Kind and BindingKind are the kinds of the two objects.
const (
	Kind        = "MutatingAdmissionPolicy"
	BindingKind = "MutatingAdmissionPolicyBinding"
)

// objectMeta sets no owner reference: a cluster-scoped object cannot have an owner in a namespace.
func objectMeta(facts inject.Facts) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: Name(facts.Namespace, facts.Cluster),
		Labels: map[string]string{
			plan.LabelName:        plan.AppName,
			plan.LabelComponent:   "injection",
			plan.LabelInstance:    facts.Cluster,
			plan.LabelManagedBy:   plan.ManagedBy,
			v1alpha1.LabelCluster: facts.Cluster,
		},
	}
}

// ClusterOf returns the cluster of a policy or binding that the operator made.
func ClusterOf(policy metav1.Object) (key client.ObjectKey, ours bool) {
	parts := strings.SplitN(policy.GetName(), ".", 3)
	if policy.GetLabels()[plan.LabelManagedBy] != plan.ManagedBy || len(parts) != 3 ||
		policy.GetLabels()[v1alpha1.LabelCluster] != parts[2] || parts[0] != "peercache" {
		return client.ObjectKey{}, false
	}
	return client.ObjectKey{Namespace: parts[1], Name: parts[2]}, true
}

// pods matches the creation of pods that name the cluster.
func pods(cluster string) *admissionv1.MatchResources {
	return &admissionv1.MatchResources{
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelInject: cluster}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
				Scope: new(admissionv1.NamespacedScope),
			},
		}}},
	}
}

// namespaceCondition distinguishes clusters of the same name by their namespaces, as inject.ClusterOf does.
func namespaceCondition(facts inject.Facts) admissionv1.MatchCondition {
	key := literal(v1alpha1.AnnotationClusterNamespace)
	return admissionv1.MatchCondition{Name: "cluster-namespace", Expression: fmt.Sprintf(
		"(has(object.metadata.annotations) && %[1]s in object.metadata.annotations && object.metadata.annotations[%[1]s] != '' ? "+
			"object.metadata.annotations[%[1]s] : request.namespace) == %[2]s", key, literal(facts.Namespace))}
}

// readPod declares the parts of the pod that may be missing, and the socket of its group.
func (p *builder) readPod() {
	p.declare("own", "request.namespace == "+literal(p.facts.Namespace))
	p.declare("annotations", "has(object.metadata.annotations) ? object.metadata.annotations : {}")
	p.declare("takesFlags", fmt.Sprintf("%[1]s in variables.annotations && variables.annotations[%[1]s] == 'true'",
		literal(names.AnnotationTakesFlags)))
	p.declare("engine", fmt.Sprintf("%[1]s in variables.annotations ? variables.annotations[%[1]s] : %[2]s",
		literal(names.AnnotationEngine), literal(sglang.Engine{}.About().ID)))
	p.declare("containers", "object.spec.containers")
	p.declare("initContainers", "has(object.spec.initContainers) ? object.spec.initContainers : []")
	p.declare("volumes", "has(object.spec.volumes) ? object.spec.volumes : []")
	p.declare("index", "lists.range(size(variables.containers))")
	p.declare("group", fmt.Sprintf("%[1]s in variables.annotations ? variables.annotations[%[1]s] : %[2]s",
		literal(names.AnnotationGroup), literal(p.facts.Groups[0])))
	p.declare("groups", literal(p.facts.Groups))
	p.declare("namespaceLabels", "has(namespaceObject.metadata.labels) ? namespaceObject.metadata.labels : {}")
	p.declare("firstUser", fmt.Sprintf("has(namespaceObject.metadata.annotations) && %[1]s in namespaceObject.metadata.annotations ? "+
		"namespaceObject.metadata.annotations[%[1]s].find(%[2]s) : ''", literal(inject.Users), literal(inject.FirstUser)))
	p.declare("socket", text(socketOf("variables.group")))
}

// volumes are the volumes that the pod needs, in the order of inject.Inject.
func (p *builder) volumes() []celVolume {
	sockets := inject.SocketVolume(p.facts)
	var sameVolume string
	if csi := sockets.CSI; csi != nil {
		sameVolume = fmt.Sprintf("has(v.csi) && v.csi.driver == %s && has(v.csi.readOnly) && v.csi.readOnly && "+
			"has(v.csi.volumeAttributes) && v.csi.volumeAttributes == %s",
			literal(csi.Driver), literal(csi.VolumeAttributes))
	} else {
		sameVolume = "has(v.hostPath) && v.hostPath.path == " + literal(sockets.HostPath.Path)
	}
	var list []celVolume
	switch p.facts.Delivery {
	case v1alpha1.ClientPreinstalled:
	case v1alpha1.ClientImageVolume:
		list = append(list, celVolume{
			names.Client, p.byNamespace(func(f inject.Facts) string { return literal(inject.ClientVolume(f)) }),
			"has(v.image) && has(v.image.reference) && v.image.reference == " +
				p.byNamespace(func(f inject.Facts) string { return literal(f.ClientImage) }),
		})
	default:
		list = append(list, celVolume{names.Client, literal(inject.ClientVolume(p.facts)), "has(v.emptyDir)"})
	}
	return append(list, celVolume{sockets.Name, literal(sockets), sameVolume})
}

// celVolume is a volume to add as an expression. matches recognises a volume v of the same name as the same volume.
type celVolume struct{ name, volume, matches string }
