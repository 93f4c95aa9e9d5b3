// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

func matches(word string, pattern *regexp.Regexp) string {
	return word + ".matches(" + literal(pattern.String()) + ")"
}

// readContainers declares what container.go and argv.go find in containers: their words, whether and where SGLang
// starts, and how they can be given the flags.
func (p *policyText) readContainers() {
	p.each("command", optional("command"))
	p.each("args", optional("args"))
	p.each("words", its("command")+" + "+its("args"))
	serves := matches("w[i]", launchProgram) + " && i + 1 < size(w) && w[i + 1] == 'serve'"
	p.let("launch", fmt.Sprintf("variables.words.map(w, (lists.range(size(w)).filter(i, %s).map(i, %s ? i + 1 : i) + [-1])[0])",
		anyOf(
			fmt.Sprintf("w[i] == %s && i > 0 && w[i - 1] == '-m'", literal(launchModule)),
			"w[i] == "+literal("-m"+launchModule),
			matches("w[i]", launchScript),
			serves,
		), serves))
	p.each("mentions", fmt.Sprintf("%s >= 0 || %s.exists(w, %s)", its("launch"), its("words"), matches("w", launchText)))
	// The name of the flag that a word may be, empty before those of SGLang.
	p.each("names", fmt.Sprintf("lists.range(size(%[1]s)).map(i, i <= %[2]s ? '' : %[1]s[i].split('=', 2)[0])", its("words"), its("launch")))
	p.each("shell", fmt.Sprintf("(%[1]s >= 0 ? %[2]s.slice(0, %[1]s) : %[2]s).exists(w, %[3]s)", its("launch"), its("words"), matches("w", shell)))

	p.let("annotated", literal(AnnotationContainer)+" in variables.annotations")
	p.let("named", fmt.Sprintf("variables.annotated ? variables.annotations[%s].split(',').map(n, n.trim()) : []", literal(AnnotationContainer)))
	p.let("containerNames", "variables.containers.map(c, c.name)")
	p.let("unknown", "variables.named.filter(n, !(n in variables.containerNames))")
	p.let("chosen", fmt.Sprintf(
		"variables.index.filter(k, variables.annotated ? variables.containerNames[k] in variables.named : variables.containerNames[k] == %s || %s)",
		literal(defaultContainer), its("mentions")))
}

// decideDelivery declares how each container can be given the flags.
func (p *policyText) decideDelivery() {
	flags, environment := literal(string(DeliveryFlags)), literal(string(DeliveryEnvironment))
	p.each("direct", first([]choice{
		{its("shell"), environment},
		{its("launch") + " >= 0", flags},
		{its("mentions"), environment},
		{"variables.annotated", flags},
		{
			fmt.Sprintf("size(%[1]s) == 0 && size(%[2]s) > 0 && %[2]s[0].startsWith('-') && %[3]s", its("command"), its("args"), given(modelPath)),
			flags,
		},
	}, environment))
	p.each("delivery", fmt.Sprintf("%s == %s && !%s ? %s : %s", its("direct"), flags, given(configFile), flags, environment))
	p.each("byFlags", its("delivery")+" == "+flags)
}

// decideContainers declares why each container is left alone, if so, and what is left to the user.
func (p *policyText) decideContainers() {
	p.each("env", optional("env"))
	var obstacles []choice
	for _, mount := range p.mounts() {
		theirs := fmt.Sprintf("%s.filter(m, !(%s) && (%s))", optional("volumeMounts"), sameMount("m", mount), overlaps("m", mount))
		obstacles = append(obstacles, choice{
			"size(" + theirs + ") > 0",
			"(" + text(reasonOverlap(in(theirs+"[0].name"), in(theirs+"[0].mountPath"), mount.MountPath)) + ")",
		})
	}
	if p.delivered() {
		obstacles = append([]choice{{
			fmt.Sprintf("%s && %s", movesPythonPath, defines(envUserPythonPath)), literal(reasonUserPythonPath()),
		}}, obstacles...)
		p.each("pythonPath", fmt.Sprintf("([-1] + lists.range(size(%[1]s)).filter(i, %[1]s[i].name == %[2]s)).max()", its("env"), literal(envPythonPath)))
	}
	p.each("obstacle", first(append([]choice{
		{its("byFlags") + " && " + its("flagReason") + " != ''", its("flagReason")},
	}, obstacles...), "''"))
	p.each("note", first([]choice{
		{anyOf(its("byFlags"), its("words")+".exists(w, w.contains("+literal(envFlags)+"))"), "''"},
		{its("direct") + " == " + literal(string(DeliveryFlags)), literal(noteConfigFile())},
	}, literal(noteScript())))
}

// delivered says whether the client is mounted, and not part of the image.
func (p *policyText) delivered() bool { return p.facts.Delivery != v1alpha1.ClientPreinstalled }

// mounts are those of each container.
func (p *policyText) mounts() []corev1.VolumeMount {
	var mounts []corev1.VolumeMount
	if p.delivered() {
		mounts = append(mounts, clientMount(p.facts))
	}
	return append(mounts, viaSocket("").mounts...)
}

func sameMount(m string, mount corev1.VolumeMount) string {
	return fmt.Sprintf("%[1]s.name == %[2]s && %[1]s.mountPath == %[3]s", m, literal(mount.Name), literal(mount.MountPath))
}

// overlaps is overlap: one path is the other or lies above it. What is found is the path without the slashes at its end.
func overlaps(m string, mount corev1.VolumeMount) string {
	theirs, ours := fmt.Sprintf("(%s.mountPath.find('^(?:.*[^/])?') + '/')", m), literal(mount.MountPath+"/")
	return fmt.Sprintf("%[1]s.startsWith(%[2]s) || %[2]s.startsWith(%[1]s)", theirs, ours)
}

// defines says whether a container sets a variable.
func defines(name string) string {
	return fmt.Sprintf("%s.exists(e, e.name == %s)", its("env"), literal(name))
}

// itsPythonPath is the definition that counts, where there is one.
var (
	hasPythonPath   = its("pythonPath") + " >= 0"
	itsPythonPath   = its("env") + "[" + its("pythonPath") + "]"
	movesPythonPath = hasPythonPath + " && has(" + itsPythonPath + ".valueFrom)"
)
