// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
)

// decidePod declares the reason to leave the pod alone, and the texts of its annotations.
func (p *builder) decidePod(namespaces *metav1.LabelSelector) {
	name := p.facts.Namespace + "/" + p.facts.Cluster
	refused := []choice{
		p.refusesNamespace(name, namespaces),
		{"has(params.metadata.deletionTimestamp)", literal(reasons.ClusterDeleting(name))},
	}
	if p.facts.DriverMissing {
		refused = append(refused, choice{"true", literal(reasons.DriverMissing(name))})
	}
	if p.facts.ByHostPath() {
		refused = append(refused, p.refusesHostPath())
	}
	list := embed("variables.containerNames.join(', ')")
	refused = append(refused,
		choice{"!(variables.group in variables.groups)", "(" + text(reasons.GroupUnknown(name, p.facts.Groups, embed("variables.group"))) + ")"},
		choice{
			"!(variables.engine in " + literal(inject.EngineIDs()) + ")",
			"(" + text(reasons.EngineUnknown(embed("variables.engine"), inject.EngineIDs())) + ")",
		},
		choice{
			"size(variables.unknown) > 0 && variables.initContainers.exists(c, c.name == variables.unknown[0])",
			"(" + text(reasons.InitContainerNamed(embed("variables.unknown[0]"), list)) + ")",
		},
		choice{"size(variables.unknown) > 0", "(" + text(reasons.ContainerUnknown(embed("variables.unknown[0]"), list)) + ")"},
		choice{"size(variables.chosen) == 0", "(" + text(reasons.NoEngine(list)) + ")"})
	for i, v := range p.volumes() {
		refused = append(refused, choice{
			fmt.Sprintf("variables.volumes.exists(v, v.name == %s && !(%s))", literal(v.name), v.matches),
			literal(reasons.VolumeTaken(v.name)),
		})
		if i == 0 && p.usesInitContainer() {
			refused = append(refused, choice{
				fmt.Sprintf("(variables.initContainers + variables.containers).exists(c, c.name == %[1]s && "+
					"!(has(c.volumeMounts) && c.volumeMounts.exists(m, m.name == %[1]s && m.mountPath == %[2]s)))",
					literal(names.Client), literal(names.ClientCopyDir)),
				literal(reasons.ContainerTaken(names.Client)),
			})
		}
	}
	p.declare("refused", firstMatch(refused, "''"))

	p.declare("connected", "variables.refused != '' ? [] : variables.chosen.filter(k, "+elem("obstacle")+" == '')")
	containers := func(list, condition, each string) string {
		return fmt.Sprintf("%s.filter(k, %s).map(k, %s)", list, condition, each)
	}
	ofContainer := func(variable string) string {
		return text(reasons.OfContainer(embed("variables.containerNames[k]"), embed(elem(variable))))
	}
	p.declare("skipped", firstMatch([]choice{{"variables.refused != ''", "variables.refused"}},
		containers("variables.chosen", elem("obstacle")+" != ''", ofContainer("obstacle"))+".join('; ')"))
	p.declare("given", "variables.connected.map(k, variables.containerNames[k] + '=' + "+elem("delivery")+").join(',')")
	p.perContainer("note", fmt.Sprintf("([%s, %s] + (%s ? %s : [])).filter(n, n != '').map(n, %s).join('; ')", elem("missingFlags"), elem("pageNote"),
		elem("byFlags"), advice(), text(reasons.OfContainer(embed("variables.containerNames[k]"), embed("n")))))
	notes := fmt.Sprintf("variables.connected.filter(k, %[1]s != '').map(k, %[1]s)", elem("note"))
	if note := p.otherFacts.Note(); note != "" {
		notes = fmt.Sprintf("((variables.own || size(variables.connected) == 0 ? [] : [%s]) + %s)", literal(note), notes)
	}
	p.declare("notes", notes+".join('; ')")
	p.declare("partly", "variables.connected.exists(k, "+elem("missingFlags")+" != '')")
}

// refusesNamespace does what inject.RefusesNamespace does.
func (p *builder) refusesNamespace(cluster string, namespaces *metav1.LabelSelector) choice {
	others := "!variables.own"
	if _, err := metav1.LabelSelectorAsSelector(namespaces); namespaces != nil && err == nil {
		others += " && !(" + selects(namespaces) + ")"
	}
	return choice{others, "(" + text(reasons.NamespaceNotServed(cluster, embed("request.namespace"))) + ")"}
}

// refusesHostPath does what hostPathRefused of inject does.
func (p *builder) refusesHostPath() choice {
	p.declare("level", fmt.Sprintf("%[1]s in variables.namespaceLabels ? variables.namespaceLabels[%[1]s] : variables.firstUser == '' ? %[2]s : ''",
		literal(inject.PodSecurityLabel), literal(inject.PodSecurityPrivileged)))
	p.declare("restriction", fmt.Sprintf("%s in variables.namespaceLabels ? %s : %s", literal(inject.PodSecurityLabel),
		text(reasons.PodSecurity(embed("variables.level"))), literal(reasons.Constraints())))
	return choice{
		"variables.level != " + literal(inject.PodSecurityPrivileged) + " && !variables.volumes.exists(v, has(v.hostPath))",
		"(" + text(reasons.HostPathForbidden(embed("request.namespace"), embed("variables.restriction"))) + ")",
	}
}

// usesInitContainer is true where an init container copies the client.
func (p *builder) usesInitContainer() bool {
	return p.facts.Delivery != v1alpha1.ClientPreinstalled && p.facts.Delivery != v1alpha1.ClientImageVolume
}

// selects expresses a label selector over the labels of the pod's namespace.
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
