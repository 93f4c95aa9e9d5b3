// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// embeddedKeys translates options of peercached into keys of the extra config. What is missing here is left to
// the embedded node: its id, ports, of which every rank of the pod needs its own, and the pod's address.
var embeddedKeys = map[string]struct {
	key     string
	instead string // another spelling, which the user may have chosen
	json    func(string) string
}{
	"discovery-addr":  {"discovery_addr", "", strconv.Quote},
	"advertise-addr":  {"local_hostname", "", strconv.Quote},
	"cluster":         {"cluster", "", strconv.Quote},
	"transport":       {"protocol", "", strconv.Quote},
	"device-name":     {"device_name", "device_names", strconv.Quote},
	"pool-size":       {"global_segment_size", "", strconv.Quote},
	"huge-pages":      {"huge_pages", "", strconv.Quote},
	"lease-ms":        {"lease_ms", "", plainNumber},
	"peer-timeout-ms": {"peer_timeout_ms", "", plainNumber},
	"heartbeat-ms":    {"heartbeat_interval", "", seconds},
	"member-ttl-ms":   {"member_ttl", "", seconds},
	"tls-cert-file":   {"tls_cert_file", "", strconv.Quote},
	"tls-key-file":    {"tls_key_file", "", strconv.Quote},
	"tls-ca-file":     {"tls_ca_file", "", strconv.Quote},
	"tls-peer-name":   {"tls_peer_name", "", strconv.Quote},
}

func plainNumber(value string) string { return value }

// seconds writes milliseconds as seconds.
func seconds(value string) string {
	milliseconds, err := strconv.Atoi(value)
	if err != nil {
		panic(err) // the plan writes numbers
	}
	return strconv.FormatFloat(float64(milliseconds)/1000, 'f', -1, 64)
}

// embedded is a node inside the SGLang process.
func embedded(pod *corev1.Pod, facts Facts, node plan.InPod) link {
	l := link{settings: commonSettings(), node: &node, podName: nameLength(pod)}
	// An id is <namespace>.<pod>.<container>.<process>.
	l.room = maxNodeID - len(facts.PodNamespace) - len(".") - l.podName - len(".") - len(".4194304")
	for _, s := range node.Settings {
		if known, ok := embeddedKeys[s.Name]; ok && s.Value != plan.PodAddress {
			l.settings = append(l.settings, setting{key: known.key, value: known.json(s.Value), instead: known.instead})
		}
	}
	if node.TLS != nil {
		l.mounts = append(l.mounts, node.TLSMount)
	}
	return l
}

// nodeIdentity tells the package what to name its nodes after. Every container has a process 1 and the pod's host name,
// which is unique in a namespace at most.
func nodeIdentity(container string) []corev1.EnvVar {
	fromField := func(name, field string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: field},
		}}
	}
	return []corev1.EnvVar{
		fromField(envPodNamespace, "metadata.namespace"),
		fromField(envPodName, "metadata.name"),
		{Name: envNodeID, Value: "$(" + envPodNamespace + ").$(" + envPodName + ")." + container},
	}
}

// hostNode gives an SGLang container what the node inside it needs, or says why it cannot have it. The user's
// own requests and limits stay as they are: they are what the machine was chosen for.
func hostNode(c *corev1.Container, l link) (reason string) {
	node := l.node
	if node == nil {
		return ""
	}
	if len(c.Name) > l.room {
		return "and its pod have names of together more than " + strconv.Itoa(l.room+l.podName) + " characters, and nodes are named after " +
			"them: shorten them"
	}
	needs := node.Devices.DeepCopy()
	if huge := node.Memory.HugePages; huge == v1alpha1.HugePages2Mi || huge == v1alpha1.HugePages1Gi {
		needs[corev1.ResourceName(corev1.ResourceHugePagesPrefix+string(huge))] = node.Memory.Pool
		if len(c.Resources.Requests) == 0 && len(c.Resources.Limits) == 0 {
			return "requests neither cores nor memory, without which Kubernetes gives no huge pages: add resources, or write " +
				"injection.memory with hugePages: None"
		}
	} else if reason := tooLittleMemory(c, node); reason != "" {
		return reason
	}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		if reason := addResource(c, name, needs[name]); reason != "" {
			return reason
		}
	}
	for _, claim := range node.Sidecar.Resources.Claims {
		if !slices.Contains(c.Resources.Claims, claim) {
			c.Resources.Claims = append(c.Resources.Claims, claim)
		}
	}
	if node.RDMA {
		allowPinning(c)
	}
	return ""
}

// tooLittleMemory: the pool is shared memory of the container, and whoever set a limit did not know of it.
func tooLittleMemory(c *corev1.Container, node *plan.InPod) (reason string) {
	limit, limited := c.Resources.Limits[corev1.ResourceMemory]
	need := node.Memory.Pool.DeepCopy()
	need.Add(node.Overhead[corev1.ResourceMemory])
	if !limited || limit.Cmp(need) > 0 {
		return ""
	}
	return "has a memory limit of " + limit.String() + ", and the node inside it alone takes " + need.String() +
		": add that to the limit, or lower injection.memory.pool"
}

// addResource requests a device or huge pages, unless the user has requested as much.
func addResource(c *corev1.Container, name corev1.ResourceName, need resource.Quantity) (reason string) {
	if have, ok := c.Resources.Limits[name]; ok {
		if have.Cmp(need) < 0 {
			return "has a limit of " + have.String() + " on " + string(name) + ", and the node inside it needs " + need.String() + ": raise it"
		}
		return ""
	}
	if c.Resources.Limits == nil {
		c.Resources.Limits = corev1.ResourceList{}
	}
	if c.Resources.Requests == nil {
		c.Resources.Requests = corev1.ResourceList{}
	}
	c.Resources.Limits[name], c.Resources.Requests[name] = need.DeepCopy(), need.DeepCopy()
	return ""
}

// allowPinning lets the container keep its pool in memory, where the network card reads it.
func allowPinning(c *corev1.Container) {
	const pin corev1.Capability = "IPC_LOCK"
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	if s := c.SecurityContext; s.Privileged != nil && *s.Privileged {
		return
	}
	if c.SecurityContext.Capabilities == nil {
		c.SecurityContext.Capabilities = &corev1.Capabilities{}
	}
	added := &c.SecurityContext.Capabilities.Add
	if !slices.Contains(*added, pin) && !slices.Contains(*added, "ALL") && !slices.Contains(*added, "CAP_"+pin) {
		*added = append(*added, pin)
	}
}
