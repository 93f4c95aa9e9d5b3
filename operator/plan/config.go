// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

// renderConfig is peercached's configuration file. It holds what all nodes of the cluster have in common;
// what differs between groups and machines comes from the environment (buildEnv in pod.go), and must not be
// here, because peercached prefers the file.
func renderConfig(cluster *v1alpha1.PeerCacheCluster) string {
	spec := cluster.Spec
	var file strings.Builder
	fmt.Fprintf(&file, "# Written by peercache-operator for PeerCacheCluster %s/%s; changes are undone.\n",
		cluster.Namespace, cluster.Name)
	text := func(key, value string) { fmt.Fprintf(&file, "%s = %s\n", key, strconv.Quote(value)) }
	number := func(key string, value int32) { fmt.Fprintf(&file, "%s = %d\n", key, value) }

	text("cluster", cluster.Name)
	text("discovery-addr", discoveryAddress(cluster))
	number("peer-port", spec.Discovery.Port)
	number("http-port", spec.Monitoring.Port)
	number("lease-ms", spec.Timing.LeaseMilliseconds)
	number("peer-timeout-ms", spec.Timing.PeerTimeoutMilliseconds)
	number("heartbeat-ms", spec.Timing.HeartbeatMilliseconds)
	number("member-ttl-ms", spec.Timing.MemberTTLMilliseconds)
	if tls := spec.Security.TLS; tls != nil {
		text("tls-cert-file", path.Join(tlsDir, corev1.TLSCertKey))
		text("tls-key-file", path.Join(tlsDir, corev1.TLSPrivateKeyKey))
		text("tls-ca-file", path.Join(tlsDir, caKey))
		if tls.PeerName != "" {
			text("tls-peer-name", tls.PeerName)
		}
	}
	return file.String()
}

// poolSize writes the quantity in a unit that means the same to Kubernetes and to peercached. Memory comes
// in whole pages, so a size that does not divide is rounded down: never more than was asked for.
func poolSize(pool resource.Quantity) string {
	const page = 4096
	bytes := pool.Value() / page * page
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"Gi", 1 << 30}, {"Mi", 1 << 20}} {
		if bytes%unit.bytes == 0 {
			return strconv.FormatInt(bytes/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(bytes, 10)
}

// hugePages turns None into off rather than auto: what was not requested from Kubernetes must not be taken.
func hugePages(size v1alpha1.HugePages) string {
	if size == v1alpha1.HugePages2Mi || size == v1alpha1.HugePages1Gi {
		return string(size)
	}
	return "off"
}
