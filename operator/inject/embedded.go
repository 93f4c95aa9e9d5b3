// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/plan"
)

// embeddedKeys translates options of peercached into keys of the extra config. The embedded node chooses all other options:
// its id, its ports, of which every rank of the pod needs its own, and the pod's address.
var embeddedKeys = map[string]struct {
	key     string
	instead string // another spelling that the user may have chosen
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
	"auth-token-file": {"auth_token_file", "", strconv.Quote},
	"insecure-peers":  {"insecure_peers", "", isOn},
	"tls-cert-file":   {"tls_cert_file", "", strconv.Quote},
	"tls-key-file":    {"tls_key_file", "", strconv.Quote},
	"tls-ca-file":     {"tls_ca_file", "", strconv.Quote},
	"tls-peer-name":   {"tls_peer_name", "", strconv.Quote},

	"tenant":             {"tenant", "", strconv.Quote},
	"tenant-secret-file": {"tenant_secret_file", "", strconv.Quote},
}

func plainNumber(value string) string { return value }

func isOn(value string) string { return strconv.FormatBool(value == "on") }

// seconds converts milliseconds to seconds.
func seconds(value string) string {
	milliseconds, err := strconv.Atoi(value)
	if err != nil {
		panic(err) // the plan writes numbers
	}
	return strconv.FormatFloat(float64(milliseconds)/1000, 'f', -1, 64)
}

// maxNodeID is the maximum length of the id of a member: kMaxMemberIdBytes of dataplane/src/wire/messages.h.
const maxNodeID = 320

// nameLength is the length of the pod's name. To a generateName, the API server appends five characters.
func nameLength(pod *corev1.Pod) int {
	if pod.Name != "" {
		return len(pod.Name)
	}
	return len(pod.GenerateName) + 5
}

// embeddedLink is the link to a node inside the SGLang process.
func embeddedLink(pod *corev1.Pod, facts Facts, node plan.InPod) link {
	l := link{inPod: &node, podName: nameLength(pod)}
	// The id of the node is <namespace>.<pod>.<container>.<process>.
	l.maxContainerName = maxNodeID - len(facts.PodNamespace) - len(".") - l.podName - len(".") - len(".4194304")
	for _, s := range node.Settings {
		if known, ok := embeddedKeys[s.Name]; ok && s.Value != plan.PodAddress {
			l.Node = append(l.Node, engines.Setting{Key: known.key, Value: known.json(s.Value), Instead: known.instead})
		}
	}
	for _, secret := range node.Secrets {
		l.mounts = append(l.mounts, secret.Mount)
	}
	return l
}

// nodeIdentity sets the variables from which the package makes the id of the node. The process id and the host name are not
// enough: every container has a process 1, and the host name is unique in its namespace only.
func nodeIdentity(container string) []corev1.EnvVar {
	fromField := func(name, field string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: field},
		}}
	}
	return []corev1.EnvVar{
		fromField(names.EnvPodNamespace, "metadata.namespace"),
		fromField(names.EnvPodName, "metadata.name"),
		{Name: names.EnvNodeID, Value: "$(" + names.EnvPodNamespace + ").$(" + names.EnvPodName + ")." + container},
	}
}

// prepareEmbeddedNode gives an SGLang container the resources for the node inside it, or returns a reason. The user's own
// requests and limits stay: the scheduler chooses the machine by them.
func prepareEmbeddedNode(c *corev1.Container, l link) (reason string) {
	node := l.inPod
	if node == nil {
		return ""
	}
	if len(c.Name) > l.maxContainerName {
		return "and its pod have names of together more than " + strconv.Itoa(l.maxContainerName+l.podName) + " characters, and nodes are named after " +
			"them: shorten them"
	}
	needs := node.Devices.DeepCopy()
	if huge := node.Memory.HugePages; huge == v1alpha1.HugePages2Mi || huge == v1alpha1.HugePages1Gi {
		needs[corev1.ResourceName(corev1.ResourceHugePagesPrefix+string(huge))] = node.Memory.Pool
		if len(c.Resources.Requests) == 0 && len(c.Resources.Limits) == 0 {
			return "requests neither cores nor memory, without which Kubernetes gives no huge pages: add resources, or write " +
				"injection.memory with hugePages: None"
		}
	} else if reason := memoryReason(c, node); reason != "" {
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
		addIPCLock(c)
	}
	return ""
}

// memoryReason returns why the memory limit is too low. The pool is shared memory of the container, and counts against a
// limit that the user chose without it.
func memoryReason(c *corev1.Container, node *plan.InPod) (reason string) {
	limit, limited := c.Resources.Limits[corev1.ResourceMemory]
	need := node.Memory.Pool.DeepCopy()
	need.Add(node.Overhead[corev1.ResourceMemory])
	if !limited || limit.Cmp(need) > 0 {
		return ""
	}
	return "has a memory limit of " + limit.String() + ", and the node inside it alone takes " + need.String() +
		": add that to the limit, or lower injection.memory.pool"
}

// addResource requests a device or huge pages, unless the user has requested at least as much.
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

// addIPCLock allows the container to pin the pool, which the network card reads.
func addIPCLock(c *corev1.Container) {
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
