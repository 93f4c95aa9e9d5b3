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

// Setting is an option of peercached with its value.
type Setting struct {
	Name string
	// Value is the value as on a command line.
	Value string
	// Number is true for a number, which a configuration file writes without quotes.
	Number bool
}

// settings are the options that all nodes of the cluster share. Options that differ between groups and machines are in the
// environment (buildEnv in pod.go).
func settings(cluster *v1alpha1.PeerCacheCluster) []Setting {
	spec := cluster.Spec
	var list []Setting
	text := func(name, value string) { list = append(list, Setting{Name: name, Value: value}) }
	number := func(name string, value int32) {
		list = append(list, Setting{Name: name, Value: strconv.Itoa(int(value)), Number: true})
	}
	text("cluster", Identity(cluster))
	text("discovery-addr", discoveryAddress(cluster))
	number("peer-port", spec.Discovery.Port)
	number("http-port", spec.Monitoring.Port)
	number("lease-ms", spec.Timing.LeaseMilliseconds)
	number("peer-timeout-ms", spec.Timing.PeerTimeoutMilliseconds)
	number("heartbeat-ms", spec.Timing.HeartbeatMilliseconds)
	number("member-ttl-ms", spec.Timing.MemberTTLMilliseconds)
	switch {
	case tokenSecret(cluster) != "":
		text("auth-token-file", path.Join(tokenDir, TokenKey))
	case spec.Security.TLS == nil: // certificates authenticate the peers
		text("insecure-peers", "on")
	}
	list = append(list, tenantSettings(cluster)...)
	list = append(list, rdmaSettings(spec.RDMA)...)
	list = append(list, extraSettings(spec.ExtraConfig)...)
	if budget := spec.Update.DrainBudget; budget != nil {
		text("drain-budget", byteSize(*budget))
	}
	if tls := spec.Security.TLS; tls != nil {
		text("tls-cert-file", path.Join(tlsDir, corev1.TLSCertKey))
		text("tls-key-file", path.Join(tlsDir, corev1.TLSPrivateKeyKey))
		text("tls-ca-file", path.Join(tlsDir, caKey))
		if tls.PeerName != "" {
			text("tls-peer-name", tls.PeerName)
		}
	}
	return list
}

// renderConfig writes the configuration file of the cluster's own nodes. An option must not be in both the file and the
// environment, because peercached prefers the environment.
func renderConfig(cluster *v1alpha1.PeerCacheCluster) string {
	var file strings.Builder
	fmt.Fprintf(&file, "# Written by peercache-operator for PeerCacheCluster %s/%s; changes are undone.\n",
		cluster.Namespace, cluster.Name)
	list := settings(cluster)
	if Isolated(cluster.Spec.Sharing) {
		list = append(list, Setting{Name: "tenants-dir", Value: tenantsDir})
	}
	if cluster.Spec.Update.DrainBudget == nil && anyKeepsPool(cluster.Spec) {
		list = append(list, Setting{Name: "drain-budget", Value: defaultDrainBudget})
	}
	for _, s := range list {
		value := s.Value
		if !s.Number {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&file, "%s = %s\n", s.Name, value)
	}
	return file.String()
}

// byteSize writes the quantity in a unit that means the same to Kubernetes and to peercached. It rounds down to whole pages of
// 4096 bytes, so that a node never takes more than the spec allows.
func byteSize(quantity resource.Quantity) string {
	const page = 4096
	bytes := quantity.Value() / page * page
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

// hugePages turns None into off rather than auto: a node must not take huge pages that it did not request from
// Kubernetes.
func hugePages(size v1alpha1.HugePages) string {
	if size == v1alpha1.HugePages2Mi || size == v1alpha1.HugePages1Gi {
		return string(size)
	}
	return "off"
}
