// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// Bypass says on which machines SGLang pods go without a cluster's cache.
type Bypass struct {
	all      bool
	machines map[string]bool
}

// BypassOf reads it from the spec and from the labels of machines.
func BypassOf(spec v1alpha1.PeerCacheClusterSpec, machines []corev1.Node) Bypass {
	bypass := Bypass{all: spec.Injection.Bypass == v1alpha1.SwitchEnabled, machines: map[string]bool{}}
	for i := range machines {
		if machines[i].Labels[v1alpha1.LabelBypass] == v1alpha1.BypassOn {
			bypass.machines[machines[i].Name] = true
		}
	}
	return bypass
}

// On says whether the member of a pod is to be bypassed.
func (b Bypass) On(pod *corev1.Pod) bool { return b.all || b.machines[pod.Spec.NodeName] }

// Message is the end of a message about these members; "" where none is bypassed.
func (b Bypass) Message(pods []corev1.Pod) string {
	if b.all {
		return "; SGLang pods run without the cache: spec.injection.bypass is Enabled"
	}
	var on []string
	for i := range pods {
		if name := pods[i].Spec.NodeName; b.machines[name] && !slices.Contains(on, name) {
			on = append(on, name)
		}
	}
	if len(on) == 0 {
		return ""
	}
	slices.Sort(on)
	more := ""
	if most := 5; len(on) > most {
		more, on = fmt.Sprintf(" and %d more", len(on)-most), on[:most]
	}
	return "; SGLang pods run without the cache on " + strings.Join(on, ", ") + more + ", by label " + v1alpha1.LabelBypass
}
