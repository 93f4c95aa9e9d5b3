// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// decidePod declares why the pod is left alone, if so, and what is written into its annotations.
func (p *policyText) decidePod(namespaces *metav1.LabelSelector) {
	name := p.facts.Namespace + "/" + p.facts.Cluster
	refused := []choice{{"has(params.metadata.deletionTimestamp)", literal(reasonDeleting(name))}}
	if namespaces != nil {
		p.let("namespaceLabels", "has(namespaceObject.metadata.labels) ? namespaceObject.metadata.labels : {}")
		if selector, err := metav1.LabelSelectorAsSelector(namespaces); err != nil {
			refused = append(refused, choice{"true", literal(reasonSelector(name, err))})
		} else {
			refused = append(refused, choice{
				"!(" + selects(namespaces) + ")", "(" + text(reasonNamespace(name, selector.String(), in("request.namespace"))) + ")",
			})
		}
	}
	if p.facts.DriverMissing {
		refused = append(refused, choice{"true", literal(reasonNoDriver(name))})
	}
	names := in("variables.containerNames.join(', ')")
	refused = append(refused,
		choice{"!(variables.group in variables.groups)", "(" + text(reasonGroup(p.facts, in("variables.group"))) + ")"},
		choice{
			"size(variables.unknown) > 0 && variables.initContainers.exists(c, c.name == variables.unknown[0])",
			"(" + text(reasonInitContainer(in("variables.unknown[0]"), names)) + ")",
		},
		choice{"size(variables.unknown) > 0", "(" + text(reasonNoSuchContainer(in("variables.unknown[0]"), names)) + ")"},
		choice{"size(variables.chosen) == 0", "(" + text(reasonNoEngine(names)) + ")"})
	for i, v := range p.volumes() {
		refused = append(refused, choice{
			fmt.Sprintf("variables.volumes.exists(v, v.name == %s && !(%s))", literal(v.volume.Name), v.ours),
			literal(reasonVolumeTaken(v.volume.Name)),
		})
		if i == 0 && p.copies() {
			refused = append(refused, choice{
				fmt.Sprintf("(variables.initContainers + variables.containers).exists(c, c.name == %[1]s && "+
					"!(has(c.volumeMounts) && c.volumeMounts.exists(m, m.name == %[1]s && m.mountPath == %[2]s)))",
					literal(clientName), literal(clientCopyDir)),
				literal(reasonContainerTaken(clientName)),
			})
		}
	}
	p.let("refused", first(refused, "''"))

	p.let("connected", "variables.refused != '' ? [] : variables.chosen.filter(k, "+its("obstacle")+" == '')")
	containers := func(list, condition, each string) string {
		return fmt.Sprintf("%s.filter(k, %s).map(k, %s)", list, condition, each)
	}
	ofIt := func(variable string) string {
		return text(ofContainer(in("variables.containerNames[k]"), in(its(variable))))
	}
	p.let("skipped", first([]choice{{"variables.refused != ''", "variables.refused"}},
		containers("variables.chosen", its("obstacle")+" != ''", ofIt("obstacle"))+".join('; ')"))
	p.let("given", "variables.connected.map(k, variables.containerNames[k] + '=' + "+its("delivery")+").join(',')")
	p.let("notes", containers("variables.connected", its("note")+" != ''", ofIt("note"))+".join('; ')")
}

// copies says whether an init container brings the client.
func (p *policyText) copies() bool {
	return p.facts.Delivery != v1alpha1.ClientPreinstalled && p.facts.Delivery != v1alpha1.ClientImageVolume
}

// selects is a label selector over the labels of the pod's namespace.
func selects(selector *metav1.LabelSelector) string {
	conditions := []string{"true"}
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		conditions = append(conditions, hasLabel(key)+" && "+labelIn(key, []string{selector.MatchLabels[key]}))
	}
	for _, r := range selector.MatchExpressions {
		condition := hasLabel(r.Key)
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			condition += " && " + labelIn(r.Key, r.Values)
		case metav1.LabelSelectorOpNotIn:
			condition = fmt.Sprintf("!(%s && %s)", condition, labelIn(r.Key, r.Values))
		case metav1.LabelSelectorOpDoesNotExist:
			condition = "!(" + condition + ")"
		case metav1.LabelSelectorOpExists:
		}
		conditions = append(conditions, condition)
	}
	return strings.Join(conditions, " && ")
}

func hasLabel(key string) string { return literal(key) + " in variables.namespaceLabels" }

func labelIn(key string, values []string) string {
	return fmt.Sprintf("variables.namespaceLabels[%s] in %s", literal(key), literal(values))
}
