// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/plan"
)

// addNetworks adds the networks of the node's rails to the annotation for Multus, or returns a reason. The annotation is a
// JSON list, or the short form namespace/name@interface with commas.
func addNetworks(pod *corev1.Pod, node plan.InPod) (reason string) {
	value := strings.TrimSpace(pod.Annotations[plan.MultusNetworks])
	if len(node.Networks) == 0 {
		return ""
	}
	have, short, reason := readNetworks(value)
	if reason != "" {
		return reason
	}
	var missing []plan.NetworkSelection
	for _, want := range node.Networks {
		switch i := slices.IndexFunc(have, func(h plan.NetworkSelection) bool { return sameNetwork(h, want) }); {
		case i >= 0:
			have = slices.Delete(have, i, i+1) // two rails may want one interface each on the same network
			continue
		case slices.ContainsFunc(have, func(h plan.NetworkSelection) bool {
			return h.Interface != "" && h.Interface == want.Interface
		}):
			return "annotation " + plan.MultusNetworks + " gives the name " + want.Interface + " to another network than that of the rail: " +
				"choose another name for the interface"
		}
		missing = append(missing, want)
	}
	if len(missing) > 0 {
		annotate(pod, map[string]string{plan.MultusNetworks: writeNetworks(value, short, missing)})
	}
	return ""
}

func readNetworks(value string) (have []plan.NetworkSelection, short bool, reason string) {
	if value == "" {
		return nil, false, ""
	}
	if strings.HasPrefix(value, "[") {
		if err := json.Unmarshal([]byte(value), &have); err != nil {
			return nil, false, "annotation " + plan.MultusNetworks + " cannot be completed, because it is no list of networks: " + err.Error()
		}
		return have, false, ""
	}
	for item := range strings.SplitSeq(value, ",") {
		var n plan.NetworkSelection
		item, n.Interface, _ = strings.Cut(strings.TrimSpace(item), "@")
		if namespace, name, found := strings.Cut(item, "/"); found {
			n.Namespace, n.Name = namespace, name
		} else {
			n.Name = item
		}
		have = append(have, n)
	}
	return have, true, ""
}

// sameNetwork is true where have serves a rail that wants want. A rail without an interface name accepts any.
func sameNetwork(have, want plan.NetworkSelection) bool {
	return have.Name == want.Name && have.Namespace == want.Namespace && (want.Interface == "" || have.Interface == want.Interface)
}

// writeNetworks appends in the user's form, and keeps the text that is there.
func writeNetworks(value string, short bool, missing []plan.NetworkSelection) string {
	if short {
		items := []string{value}
		for _, n := range missing {
			item := n.Name
			if n.Namespace != "" {
				item = n.Namespace + "/" + item
			}
			if n.Interface != "" {
				item += "@" + n.Interface
			}
			items = append(items, item)
		}
		return strings.Join(items, ",")
	}
	text, err := json.Marshal(missing)
	if err != nil {
		panic(err) // a struct of strings can always be encoded
	}
	before := strings.TrimSpace(strings.TrimSuffix(value, "]"))
	if before == "" || before == "[" {
		return string(text)
	}
	return before + "," + string(text[1:])
}
