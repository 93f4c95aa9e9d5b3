// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/engines/sglang"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/plan"
)

// patch is the one mutation of the policy. Its operations come in the order of the changes of Inject. They append to lists,
// and create missing ones, so that they never rewrite a list of the user.
func (p *builder) patch() string {
	lists := []string{p.annotate()}
	inPod := func(list string, adds ...[2]string) {
		lists = append(lists, appendTo("!has(object.spec."+list+")", "/spec/"+list, adds)...)
	}
	var volumes [][2]string
	for _, v := range p.volumes() {
		volumes = append(volumes, [2]string{
			fmt.Sprintf("!variables.volumes.exists(v, v.name == %s)", literal(v.name)), v.volume,
		})
	}
	inPod("volumes", volumes...)
	if p.usesInitContainer() {
		root := &corev1.Pod{}
		user := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(1))}}}
		// Only the namespace of the pod knows the user.
		ofNamespace := func(f inject.Facts) string {
			user := `"runAsUser": dyn(%s)`
			return strings.Replace(literal(inject.ClientContainer(root, f)), fmt.Sprintf(user, strconv.FormatInt(inject.NonRootUser, 10)),
				fmt.Sprintf(user, fmt.Sprintf("(variables.firstUser == '' ? %d : int(variables.firstUser))", inject.NonRootUser)), 1)
		}
		inPod("initContainers", [2]string{
			fmt.Sprintf("!(variables.initContainers + variables.containers).exists(c, c.name == %s)", literal(names.Client)),
			fmt.Sprintf("(%s ? %s : %s)",
				"has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser) && object.spec.securityContext.runAsUser != 0",
				p.byNamespace(func(f inject.Facts) string { return literal(inject.ClientContainer(user, f)) }),
				p.byNamespace(ofNamespace)),
		})
	}
	if p.delivered() && len(p.facts.PullSecrets) > 0 {
		var secrets [][2]string
		for _, secret := range p.facts.PullSecrets {
			missing := fmt.Sprintf("!(has(object.spec.imagePullSecrets) && "+
				"object.spec.imagePullSecrets.exists(s, has(s.name) && s.name == %s))", literal(secret.Name))
			if !slices.Contains(p.otherFacts.PullSecrets, secret) {
				missing = "variables.own && " + missing
			}
			secrets = append(secrets, [2]string{missing, literal(secret)})
		}
		inPod("imagePullSecrets", secrets...)
	}
	lists = append(lists, p.patchContainers()...)
	return strings.Join(lists, " +\n")
}

// appendTo returns the operations that append to a list of the pod under conditions.
func appendTo(missing, path string, adds [][2]string) []string {
	var conditions, operations []string
	for _, add := range adds {
		conditions = append(conditions, add[0])
		operations = append(operations, fmt.Sprintf("(variables.given != '' && %s ? [%s] : [])", add[0], operation("add", literal(path+"/-"), add[1])))
	}
	created := fmt.Sprintf("(variables.given != '' && %s && %s ? [%s] : [])", missing, anyOf(conditions...), operation("add", literal(path), "[]"))
	return append([]string{created}, operations...)
}

func operation(op, path, value string) string {
	return fmt.Sprintf("JSONPatch{op: %s, path: %s, value: %s}", literal(op), path, value)
}

// annotate sets the annotations of inject.Inject, and removes the empty ones.
func (p *builder) annotate() string {
	lists := []string{fmt.Sprintf("(has(object.metadata.annotations) ? [] : [%s])", operation("add", "'/metadata/annotations'", "{}"))}
	for _, a := range [][2]string{
		{names.AnnotationInjected, fmt.Sprintf("(variables.given == '' || variables.partly ? '' : %s)", literal(p.facts.Cluster))},
		{names.AnnotationPartly, fmt.Sprintf("(variables.partly ? %s : '')", literal(p.facts.Cluster))},
		{names.AnnotationContainers, "variables.given"},
		{names.AnnotationSkipReason, "variables.skipped"},
		{names.AnnotationNote, "variables.notes"},
	} {
		path := literal("/metadata/annotations/" + strings.ReplaceAll(a[0], "/", "~1"))
		lists = append(lists, fmt.Sprintf("(%s != '' ? [%s] : %s in variables.annotations ? [JSONPatch{op: 'remove', path: %s}] : [])",
			a[1], operation("add", path, a[1]), literal(a[0]), path))
	}
	return strings.Join(lists, " +\n")
}

// patchContainers returns the operations on the connected containers.
func (p *builder) patchContainers() []string {
	var lists []string
	each := func(condition, op, path, value string) {
		lists = append(lists, fmt.Sprintf("variables.connected.filter(k, %s).map(k, %s)",
			condition, operation(op, "'/spec/containers/' + string(k) + "+path, value)))
	}
	replaced := func(list, offset string) string {
		return fmt.Sprintf("lists.range(size(%[1]s)).map(i, i + %[2]s == %[3]s ? %[4]s : %[1]s[i])", elem(list), offset, elem("rewrites"), elem("rewritten"))
	}
	each(fmt.Sprintf("%[1]s >= 0 && %[1]s < size(%[2]s)", elem("rewrites"), elem("command")), "add", "'/command'", replaced("command", "0"))
	each(fmt.Sprintf("%s && (size(%s) > 0 || %s >= size(%s))", elem("byFlags"), elem("addedFlags")+" + "+elem("pageFlags"), elem("rewrites"), elem("command")),
		"add", "'/args'", replaced("args", "size("+elem("command")+")")+" + "+elem("addedFlags")+" + "+elem("pageFlags"))

	each("!has("+container+".env)", "add", "'/env'", "[]")
	if p.delivered() {
		p.patchPythonPath(each)
	}
	for _, v := range []struct{ name, value string }{
		{names.EnvSocket, "variables.socket"}, {names.EnvFlags, text(sglang.AllFlags(p.settings()))},
	} {
		each("!"+defines(v.name), "add", "'/env/-'", variable(v.name, v.value))
	}
	if p.facts.NUMASockets != "" {
		each(fmt.Sprintf("!%s && !(%s in variables.annotations)", defines(names.EnvNUMASockets), literal(names.AnnotationGroup)),
			"add", "'/env/-'", variable(names.EnvNUMASockets, literal(p.facts.NUMASockets)))
	}
	if !plan.Isolated(p.facts.Sharing) {
		each("!"+defines(names.EnvTagScope), "add", "'/env/-'", variable(names.EnvTagScope, "request.namespace"))
	}
	heldOut := fmt.Sprintf("%[1]s in variables.annotations && variables.annotations[%[1]s] == %[2]s",
		literal(names.AnnotationHoldout), literal(names.HoldoutTrue))
	each("!"+defines(names.EnvHoldout)+" && "+heldOut, "add", "'/env/-'", variable(names.EnvHoldout, literal(names.HoldoutTrue)))
	each("!has("+container+".volumeMounts)", "add", "'/volumeMounts'", "[]")
	for _, mount := range p.mounts() {
		each(fmt.Sprintf("!%s.exists(m, %s)", optional("volumeMounts"), mount.same("m")), "add", "'/volumeMounts/-'", mount.literal())
	}
	return lists
}

// patchPythonPath does what prependPythonPath does.
func (p *builder) patchPythonPath(each func(condition, op, path, value string)) {
	entry := "'/env/' + string(" + elem("pythonPath") + ")"
	old := fmt.Sprintf("(has(%[1]s.value) ? %[1]s.value : '')", pythonPathEntry)
	hasEnvFrom := "size(" + optional("envFrom") + ") > 0"
	reference := func(name string) string { return literal(names.ClientDir + ":$(" + name + ")") }

	each(fmt.Sprintf("!(%s)", hasPythonPath), "add", "'/env/-'",
		variable(names.EnvPythonPath, fmt.Sprintf("(%s ? %s : %s)", hasEnvFrom, reference(names.EnvPythonPath), literal(names.ClientDir))))
	plain := fmt.Sprintf("%s && !has(%s.valueFrom)", hasPythonPath, pythonPathEntry)
	each(fmt.Sprintf("%s && !(%s in %s.split(':'))", plain, literal(names.ClientDir), old), "add", entry+" + '/value'",
		fmt.Sprintf("%[1]s + (%[2]s == '' ? '' : ':' + %[2]s)", literal(names.ClientDir), old))
	each(movesPythonPath, "add", entry+" + '/name'", literal(names.EnvUserPythonPath))
	each(movesPythonPath, "add", "'/env/' + string("+elem("pythonPath")+" + 1)", variable(names.EnvPythonPath, reference(names.EnvUserPythonPath)))
}

func variable(name, value string) string {
	return fmt.Sprintf("{'name': %s, 'value': %s}", literal(name), value)
}
