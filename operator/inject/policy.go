// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// PolicyName is that of a cluster's policy and of its binding, which have no namespace. No namespace has a dot.
func PolicyName(namespace, cluster string) string { return "peercache." + namespace + "." + cluster }

// Policy is Inject for clusters in mode Node, written as CEL expressions that the API server evaluates itself: the pod
// comes out the same. The expressions are made of the flags, texts, containers and volumes that Inject works with.
//
// The one thing that CEL cannot do is to read JSON, so an extra config of the user's is completed only where it is a
// flat object; see policy_config.go.
//
// The cluster itself is the binding's parameter. It does not take part in the rules but for its deletion: a policy that
// outlives its cluster, because the operator was away, has no parameter and does nothing.
func Policy(facts Facts, namespaces *metav1.LabelSelector) (
	*admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding,
) {
	name := PolicyName(facts.Namespace, facts.Cluster)
	p := &policyText{facts: facts}
	p.readPod()
	p.readContainers()
	p.readFlags()
	p.decideDelivery()
	p.decideFlags()
	p.decideConfig()
	p.decideContainers()
	p.decidePod(namespaces)
	policy := &admissionv1.MutatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: PolicyKind},
		ObjectMeta: policyMeta(facts),
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			ParamKind:        &admissionv1.ParamKind{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PeerCacheCluster"},
			MatchConstraints: pods(facts.Cluster),
			MatchConditions:  []admissionv1.MatchCondition{asksFor(facts)},
			Variables:        p.variables,
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: p.patch()},
			}},
			// SGLang without the cache is slower; no SGLang is worse.
			FailurePolicy: new(admissionv1.Ignore),
			// Others may add arguments or containers after this one.
			ReinvocationPolicy: admissionv1.IfNeededReinvocationPolicy,
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: PolicyBindingKind},
		ObjectMeta: policyMeta(facts),
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: name,
			ParamRef: &admissionv1.ParamRef{
				Name: facts.Cluster, Namespace: facts.Namespace, ParameterNotFoundAction: new(admissionv1.AllowAction),
			},
		},
	}
	return policy, binding
}

// The kinds of a policy and of what puts it into effect.
const (
	PolicyKind        = "MutatingAdmissionPolicy"
	PolicyBindingKind = "MutatingAdmissionPolicyBinding"
)

// policyMeta has no owner reference: what has no namespace cannot belong to something that has one.
func policyMeta(facts Facts) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: PolicyName(facts.Namespace, facts.Cluster),
		Labels: map[string]string{
			plan.LabelName:        plan.AppName,
			plan.LabelComponent:   "injection",
			plan.LabelInstance:    facts.Cluster,
			plan.LabelManagedBy:   plan.ManagedBy,
			v1alpha1.LabelCluster: facts.Cluster,
		},
	}
}

// ClusterOfPolicy is the cluster that a policy of the operator's, or its binding, was made for.
func ClusterOfPolicy(policy metav1.Object) (key client.ObjectKey, ours bool) {
	parts := strings.SplitN(policy.GetName(), ".", 3)
	if policy.GetLabels()[plan.LabelManagedBy] != plan.ManagedBy || len(parts) != 3 ||
		policy.GetLabels()[v1alpha1.LabelCluster] != parts[2] || parts[0] != "peercache" {
		return client.ObjectKey{}, false
	}
	return client.ObjectKey{Namespace: parts[1], Name: parts[2]}, true
}

// pods are those that name the cluster, when they are created.
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

// asksFor tells the cluster from others of the same name, as ClusterOf does.
func asksFor(facts Facts) admissionv1.MatchCondition {
	key := literal(v1alpha1.AnnotationClusterNamespace)
	return admissionv1.MatchCondition{Name: "cluster-namespace", Expression: fmt.Sprintf(
		"(has(object.metadata.annotations) && %[1]s in object.metadata.annotations && object.metadata.annotations[%[1]s] != '' ? "+
			"object.metadata.annotations[%[1]s] : request.namespace) == %[2]s", key, literal(facts.Namespace))}
}

// readPod declares the parts of the pod that may be missing, and the socket of its group.
func (p *policyText) readPod() {
	p.let("annotations", "has(object.metadata.annotations) ? object.metadata.annotations : {}")
	p.let("containers", "object.spec.containers")
	p.let("initContainers", "has(object.spec.initContainers) ? object.spec.initContainers : []")
	p.let("volumes", "has(object.spec.volumes) ? object.spec.volumes : []")
	p.let("index", "lists.range(size(variables.containers))")
	p.let("group", fmt.Sprintf("%[1]s in variables.annotations ? variables.annotations[%[1]s] : %[2]s",
		literal(AnnotationGroup), literal(p.facts.Groups[0])))
	p.let("groups", literal(p.facts.Groups))
	p.let("socket", text(socketOf("variables.group")))
}

// volumes are those that the pod needs, in the order in which Inject adds them.
func (p *policyText) volumes() []policyVolume {
	sockets := machineSockets(p.facts).volume
	var ours string
	if csi := sockets.CSI; csi != nil {
		ours = fmt.Sprintf("has(v.csi) && v.csi.driver == %s && has(v.csi.readOnly) && v.csi.readOnly && "+
			"has(v.csi.volumeAttributes) && v.csi.volumeAttributes == %s",
			literal(csi.Driver), literal(csi.VolumeAttributes))
	} else {
		ours = "has(v.hostPath) && v.hostPath.path == " + literal(sockets.HostPath.Path)
	}
	var list []policyVolume
	switch p.facts.Delivery {
	case v1alpha1.ClientPreinstalled:
	case v1alpha1.ClientImageVolume:
		list = append(list, policyVolume{
			clientImage(p.facts).volume, "has(v.image) && has(v.image.reference) && v.image.reference == " + literal(p.facts.ClientImage),
		})
	default:
		list = append(list, policyVolume{emptyVolume(clientName).volume, "has(v.emptyDir)"})
	}
	return append(list, policyVolume{sockets, ours})
}

// policyVolume is a volume to add, and the expression by which one of its name, v, is known as the same.
type policyVolume struct {
	volume corev1.Volume
	ours   string
}
