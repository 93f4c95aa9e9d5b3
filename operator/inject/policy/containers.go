// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/engines/sglang"
	"github.com/peercache/peercache/operator/inject/engines/vllm"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
)

func matches(word string, pattern *regexp.Regexp) string {
	return word + ".matches(" + literal(pattern.String()) + ")"
}

// readContainers declares what inject/container.go and engines/argv.go find in containers: their words, where SGLang starts,
// and which containers are chosen.
func (p *builder) readContainers() {
	p.perContainer("command", optional("command"))
	p.perContainer("args", optional("args"))
	p.perContainer("words", elem("command")+" + "+elem("args"))
	serves := matches("w[i]", sglang.LaunchProgram) + " && i + 1 < size(w) && w[i + 1] == 'serve'"
	p.declare("launch", fmt.Sprintf("variables.words.map(w, (lists.range(size(w)).filter(i, %s).map(i, %s ? i + 1 : i) + [-1])[0])",
		anyOf(
			fmt.Sprintf("w[i] == %s && i > 0 && w[i - 1] == '-m'", literal(sglang.LaunchModule)),
			"w[i] == "+literal("-m"+sglang.LaunchModule),
			matches("w[i]", sglang.LaunchScript),
			serves,
		), serves))
	p.perContainer("mentions", fmt.Sprintf("%s >= 0 || %s.exists(w, %s)", elem("launch"), elem("words"), matches("w", sglang.LaunchText)))
	// names holds the flag name of each word after the start of SGLang, and "" before it.
	p.perContainer("names", fmt.Sprintf("lists.range(size(%[1]s)).map(i, i <= %[2]s ? '' : %[1]s[i].split('=', 2)[0])", elem("words"), elem("launch")))
	p.perContainer("shell", fmt.Sprintf("(%[1]s >= 0 ? %[2]s.slice(0, %[1]s) : %[2]s).exists(w, %[3]s)", elem("launch"), elem("words"), matches("w", engines.Shell)))

	p.declare("annotated", literal(names.AnnotationContainer)+" in variables.annotations")
	// vllm is true for a container of vLLM, as engineOf of inject decides. A policy leaves it alone.
	p.perContainer("vllm", fmt.Sprintf("!%s && (%s || %s.name != %s && (%s || %s))", elem("mentions"),
		matches(elem("words")+".join('\\n')", vllm.Starts), container, literal(sglang.DefaultContainer),
		fmt.Sprintf("%[1]s.name == %[2]s || size(%[3]s) == 0 && has(%[1]s.image) && %[4]s", container, literal(vllm.Container), elem("command"),
			matches(container+".image", vllm.Image)),
		"variables.annotated && variables.engine == "+literal(vllm.Engine{}.About().ID)))
	p.declare("named", fmt.Sprintf("variables.annotated ? variables.annotations[%s].split(',').map(n, n.trim()) : []", literal(names.AnnotationContainer)))
	p.declare("containerNames", "variables.containers.map(c, c.name)")
	p.declare("unknown", "variables.named.filter(n, !(n in variables.containerNames))")
	p.declare("chosen", fmt.Sprintf(
		"variables.index.filter(k, variables.annotated ? variables.containerNames[k] in variables.named : variables.containerNames[k] == %s || %s || %s)",
		literal(sglang.DefaultContainer), elem("mentions"), elem("vllm")))
}

// decideDelivery declares how each container gets the flags.
func (p *builder) decideDelivery() {
	flags, environment := literal(string(engines.DeliveryFlags)), literal(string(engines.DeliveryEnvironment))
	p.perContainer("direct", firstMatch([]choice{
		{elem("shell"), environment},
		{elem("launch") + " >= 0", flags},
		{elem("mentions"), environment},
		{"variables.annotated", flags},
		{
			fmt.Sprintf("size(%[1]s) == 0 && size(%[2]s) > 0 && %[2]s[0].startsWith('-') && %[3]s", elem("command"), elem("args"), given(sglang.ModelPath)),
			flags,
		},
	}, environment))
	p.perContainer("delivery", fmt.Sprintf("%s == %s && !%s ? %s : %s", elem("direct"), flags, given(engines.ConfigFile), flags, environment))
	p.perContainer("byFlags", elem("delivery")+" == "+flags)
}

// decideContainers declares the reason to leave each container alone, and the note for the user.
func (p *builder) decideContainers() {
	p.perContainer("env", optional("env"))
	var obstacles []choice
	for _, mount := range p.mounts() {
		theirs := fmt.Sprintf("%s.filter(m, !(%s) && (%s))", optional("volumeMounts"), mount.same("m"), overlaps("m", mount.VolumeMount))
		obstacles = append(obstacles, choice{
			"size(" + theirs + ") > 0",
			"(" + text(reasons.MountOverlap(embed(theirs+"[0].name"), embed(theirs+"[0].mountPath"), mount.MountPath)) + ")",
		})
	}
	if p.delivered() {
		joined := elem("words") + ".join('\\n')"
		obstacles = append([]choice{
			{matches(joined, engines.IsolatedPython), literal(reasons.PythonPathIgnored())},
			{
				matches(joined, engines.SetsPythonPath) + " && !" + matches(joined, engines.KeepsPythonPath),
				literal(reasons.PythonPathReplaced()),
			},
			{fmt.Sprintf("%s && %s", movesPythonPath, defines(names.EnvUserPythonPath)), literal(reasons.VariableTaken())},
		}, obstacles...)
		p.perContainer("pythonPath", fmt.Sprintf("([-1] + lists.range(size(%[1]s)).filter(i, %[1]s[i].name == %[2]s)).max()", elem("env"), literal(names.EnvPythonPath)))
	}
	p.perContainer("obstacle", firstMatch(append([]choice{
		{elem("vllm"), literal(vllm.ByPolicy())},
		{elem("byFlags") + " && " + elem("flagReason") + " != ''", elem("flagReason")},
	}, obstacles...), "''"))
	p.perContainer("otherBackends", fmt.Sprintf("%s.join('\\n').findAll(%s).map(c, c.find(%s)).filter(b, !(b in %s))", elem("words"),
		literal(sglang.BackendChoice.String()), literal(sglang.ChosenBackend.String()), literal(sglang.OurBackends)))
	about := sglang.Engine{}.About()
	p.perContainer("missingFlags", firstMatch([]choice{
		{anyOf(elem("byFlags"), "variables.takesFlags"), "''"},
		{"size(" + elem("otherBackends") + ") > 0", "(" + text(sglang.NoteOtherBackend(embed(elem("otherBackends")+"[0]"))) + ")"},
		{elem("words") + ".exists(w, w.contains(" + literal(names.EnvFlags) + "))", "''"},
		{elem("direct") + " == " + literal(string(engines.DeliveryFlags)), literal(reasons.NoteConfigFile(engines.ConfigFile.Name, about.Other, about.Variable))},
	}, literal(reasons.NoteScript(about.Name, about.Variable))))
}

// delivered is true where the client is mounted, and false where the image has it.
func (p *builder) delivered() bool { return p.facts.Delivery != v1alpha1.ClientPreinstalled }

// celMount is a mount whose subPath is an expression.
type celMount struct {
	corev1.VolumeMount
	subPath string
}

// mounts are the mounts of each container.
func (p *builder) mounts() []celMount {
	var mounts []celMount
	if p.delivered() {
		mount := inject.ClientMount(p.facts)
		mounts = append(mounts, celMount{mount, literal(mount.SubPath)})
	}
	sockets := inject.SocketMount(p.facts)
	mount := celMount{sockets, literal(sockets.SubPath)}
	if p.facts.FolderPerNamespace() {
		mount.subPath = "request.namespace"
	}
	return append(mounts, mount)
}

// same compares a mount m with this one as addMounts does.
func (mount celMount) same(m string) string {
	return fmt.Sprintf("%[1]s.name == %[2]s && %[1]s.mountPath == %[3]s && (has(%[1]s.subPath) ? %[1]s.subPath : '') == %[4]s",
		m, literal(mount.Name), literal(mount.MountPath), mount.subPath)
}

func (mount celMount) literal() string {
	plain := mount.VolumeMount
	plain.SubPath = ""
	if mount.subPath == literal("") {
		return literal(plain)
	}
	return strings.TrimSuffix(literal(plain), "}") + fmt.Sprintf(`, "subPath": dyn(%s)}`, mount.subPath)
}

// overlaps does what overlap of inject/volumes.go does. The expression find returns the path without slashes at its
// end.
func overlaps(m string, mount corev1.VolumeMount) string {
	theirs, ours := fmt.Sprintf("(%s.mountPath.find('^(?:.*[^/])?') + '/')", m), literal(mount.MountPath+"/")
	return fmt.Sprintf("%[1]s.startsWith(%[2]s) || %[2]s.startsWith(%[1]s)", theirs, ours)
}

// defines is true where a container sets a variable.
func defines(name string) string {
	return fmt.Sprintf("%s.exists(e, e.name == %s)", elem("env"), literal(name))
}

// pythonPathEntry is the definition of PYTHONPATH that counts, where there is one.
var (
	hasPythonPath   = elem("pythonPath") + " >= 0"
	pythonPathEntry = elem("env") + "[" + elem("pythonPath") + "]"
	movesPythonPath = hasPythonPath + " && has(" + pythonPathEntry + ".valueFrom)"
)
