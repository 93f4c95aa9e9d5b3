// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// patch is the policy's one mutation: operations in the order in which Inject makes its changes. A list is appended to,
// and made first where there is none, so that nothing of the user's passes through here.
func (p *policyText) patch() string {
	lists := []string{p.annotate()}
	inPod := func(list string, adds ...[2]string) {
		lists = append(lists, appendTo("!has(object.spec."+list+")", "/spec/"+list, adds)...)
	}
	var volumes [][2]string
	for _, v := range p.volumes() {
		volumes = append(volumes, [2]string{
			fmt.Sprintf("!variables.volumes.exists(v, v.name == %s)", literal(v.volume.Name)), literal(v.volume),
		})
	}
	inPod("volumes", volumes...)
	if p.copies() {
		root := &corev1.Pod{}
		user := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(nobody)}}}
		inPod("initContainers", [2]string{
			fmt.Sprintf("!(variables.initContainers + variables.containers).exists(c, c.name == %s)", literal(clientName)),
			fmt.Sprintf("(%s ? %s : %s)",
				"has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser) && object.spec.securityContext.runAsUser != 0",
				literal(clientContainer(user, p.facts)), literal(clientContainer(root, p.facts))),
		})
	}
	if p.delivered() && len(p.facts.PullSecrets) > 0 {
		var secrets [][2]string
		for _, secret := range p.facts.PullSecrets {
			secrets = append(secrets, [2]string{
				fmt.Sprintf("request.namespace == %s && !(has(object.spec.imagePullSecrets) && "+
					"object.spec.imagePullSecrets.exists(s, has(s.name) && s.name == %s))", literal(p.facts.Namespace), literal(secret.Name)),
				literal(secret),
			})
		}
		inPod("imagePullSecrets", secrets...)
	}
	lists = append(lists, p.patchContainers()...)
	return strings.Join(lists, " +\n")
}

// appendTo are the operations that append to a list of the pod under conditions.
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

// annotate writes the four annotations, or removes those that have nothing to say.
func (p *policyText) annotate() string {
	lists := []string{fmt.Sprintf("(has(object.metadata.annotations) ? [] : [%s])", operation("add", "'/metadata/annotations'", "{}"))}
	for _, a := range [][2]string{
		{AnnotationInjected, fmt.Sprintf("(variables.given == '' ? '' : %s)", literal(p.facts.Cluster))},
		{AnnotationContainers, "variables.given"},
		{AnnotationSkipReason, "variables.skipped"},
		{AnnotationNote, "variables.notes"},
	} {
		path := literal("/metadata/annotations/" + strings.ReplaceAll(a[0], "/", "~1"))
		lists = append(lists, fmt.Sprintf("(%s != '' ? [%s] : %s in variables.annotations ? [JSONPatch{op: 'remove', path: %s}] : [])",
			a[1], operation("add", path, a[1]), literal(a[0]), path))
	}
	return strings.Join(lists, " +\n")
}

// patchContainers are the operations on the containers that are connected.
func (p *policyText) patchContainers() []string {
	var lists []string
	each := func(condition, op, path, value string) {
		lists = append(lists, fmt.Sprintf("variables.connected.filter(k, %s).map(k, %s)",
			condition, operation(op, "'/spec/containers/' + string(k) + "+path, value)))
	}
	replaced := func(list, offset string) string {
		return fmt.Sprintf("lists.range(size(%[1]s)).map(i, i + %[2]s == %[3]s ? %[4]s : %[1]s[i])", its(list), offset, its("rewrites"), its("rewritten"))
	}
	each(fmt.Sprintf("%[1]s >= 0 && %[1]s < size(%[2]s)", its("rewrites"), its("command")), "add", "'/command'", replaced("command", "0"))
	each(fmt.Sprintf("%s && (size(%s) > 0 || %s >= size(%s))", its("byFlags"), its("addedFlags"), its("rewrites"), its("command")),
		"add", "'/args'", replaced("args", "size("+its("command")+")")+" + "+its("addedFlags"))

	each("!has("+container+".env)", "add", "'/env'", "[]")
	if p.delivered() {
		p.patchPythonPath(each)
	}
	for _, v := range []struct{ name, value string }{
		{envSocket, "variables.socket"}, {envFlags, text(allFlags(p.settings()))},
	} {
		each("!"+defines(v.name), "add", "'/env/-'", variable(v.name, v.value))
	}
	each("!has("+container+".volumeMounts)", "add", "'/volumeMounts'", "[]")
	for _, mount := range p.mounts() {
		each(fmt.Sprintf("!%s.exists(m, %s)", optional("volumeMounts"), sameMount("m", mount)), "add", "'/volumeMounts/-'", literal(mount))
	}
	return lists
}

// patchPythonPath does what prependPythonPath does.
func (p *policyText) patchPythonPath(each func(condition, op, path, value string)) {
	at := "'/env/' + string(" + its("pythonPath") + ")"
	old := fmt.Sprintf("(has(%[1]s.value) ? %[1]s.value : '')", itsPythonPath)
	fromElsewhere := "size(" + optional("envFrom") + ") > 0"
	reference := func(name string) string { return literal(clientDir + ":$(" + name + ")") }

	each(fmt.Sprintf("!(%s)", hasPythonPath), "add", "'/env/-'",
		variable(envPythonPath, fmt.Sprintf("(%s ? %s : %s)", fromElsewhere, reference(envPythonPath), literal(clientDir))))
	plain := fmt.Sprintf("%s && !has(%s.valueFrom)", hasPythonPath, itsPythonPath)
	each(fmt.Sprintf("%s && !(%s in %s.split(':'))", plain, literal(clientDir), old), "add", at+" + '/value'",
		fmt.Sprintf("%[1]s + (%[2]s == '' ? '' : ':' + %[2]s)", literal(clientDir), old))
	each(movesPythonPath, "add", at+" + '/name'", literal(envUserPythonPath))
	each(movesPythonPath, "add", "'/env/' + string("+its("pythonPath")+" + 1)", variable(envPythonPath, reference(envUserPythonPath)))
}

func variable(name, value string) string {
	return fmt.Sprintf("{'name': %s, 'value': %s}", literal(name), value)
}
