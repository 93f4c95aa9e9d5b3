// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/peercache/peercache/api/v1alpha1"
)

// freeOptions are the options of peercached that only spec.extraConfig sets. A test compares them and fieldOfOption with the
// options of the data plane.
var freeOptions = []string{
	"checksums", "copy-threads", "core-files", "dir-cache-ttl-ms", "directory-lookups", "engine-concurrency", "eviction",
	"high-watermark", "io-threads", "log-level", "low-watermark", "map-pools", "max-directory-records", "max-engine-memory",
	"max-engines", "max-tenant-memory", "prefault", "promotion-percent", "rdma-ece", "rdma-max-queues", "rdma-queues", "rdma-relaxed-ordering",
	"rdma-retries", "rdma-spin-us", "rdma-timeout", "socket-mode", "socket-uids", "tcp-congestion", "tenant-metrics", "vnodes",
}

// fieldOfOption maps the options that the operator sets, or relies on, to the field that they follow; "" where none changes
// them. The rotation of the token relies on auth-spread-ms.
var fieldOfOption = map[string]string{
	"advertise-addr": "discovery.interface", "auth-spread-ms": "", "auth-token-file": "security.token", "bind-addr": "",
	"bypass-file": "injection.bypass", "cluster": "",
	"device-name": "rails", "discovery-addr": "discovery", "disk-io": "disk.io", "disk-path": "disk", "disk-size": "disk.size",
	"disk-write-budget": "disk.writeBudget", "drain-budget": "update.drainBudget", "group": "rails[].group",
	"heartbeat-ms": "timing.heartbeatMilliseconds", "http": "monitoring", "http-port": "monitoring.port",
	"huge-pages": "memory.hugePages", "insecure-peers": "security.peers", "lease-ms": "timing.leaseMilliseconds",
	"member-ttl-ms": "timing.memberTTLMilliseconds", "node-id": "", "numa-node": "rails[].numaNode", "peer-port": "discovery.port",
	"peer-timeout-ms": "timing.peerTimeoutMilliseconds", "pool-file": "update.strategy", "pool-file-view": "update.strategy", "pool-size": "memory.pool", "rdma-gid": "rdma.gid", "rdma-mtu": "rdma.mtu",
	"rdma-odp": "rdma.onDemandPaging", "rdma-pkey-index": "rdma.partitionKeyIndex", "rdma-service-level": "rdma.serviceLevel",
	"rdma-traffic-class": "rdma.trafficClass", "socket": "injection.socket", "tenant": "sharing", "tenant-secret-file": "sharing",
	"tenants-dir": "sharing", "tls-ca-file": "security.tls", "tls-cert-file": "security.tls", "tls-key-file": "security.tls",
	"tls-peer-name": "security.tls.peerName", "transport": "transport",
}

// optionValue matches values that mean the same in a configuration file and in the environment of a container, where
// $(NAME) would be replaced.
var optionValue = regexp.MustCompile(`^[-A-Za-z0-9_.,:;/%+=@ ]+$`)

// checkExtraConfig detects options that the data plane does not have, and those that a field sets.
func checkExtraConfig(spec v1alpha1.PeerCacheClusterSpec) func([]Group) *Problem {
	return func([]Group) *Problem {
		for _, name := range slices.Sorted(maps.Keys(spec.ExtraConfig)) {
			if field, set := fieldOfOption[name]; set {
				fix := "remove it"
				if field != "" {
					fix = fmt.Sprintf("write spec.%s instead", field)
				}
				return extraConfigProblem("extraConfig sets %s, which the operator sets itself: %s", name, fix)
			}
			if !slices.Contains(freeOptions, name) {
				return extraConfigProblem("extraConfig sets %s, which peercached does not have: write one of %s", name,
					strings.Join(freeOptions, ", "))
			}
			if value := spec.ExtraConfig[name]; !optionValue.MatchString(value) {
				return extraConfigProblem("extraConfig sets %s to %q, which is not a value of an option: write letters, digits, spaces and "+
					"-_.,:;/%%+=@ only; see docs/node-options.md for the option's values", name, value)
			}
		}
		return nil
	}
}

func extraConfigProblem(format string, args ...any) *Problem {
	return &Problem{Reason: "ExtraConfigInvalid", Message: fmt.Sprintf(format, args...)}
}

// rdmaSettings are the options of spec.rdma.
func rdmaSettings(rdma v1alpha1.RDMASpec) []Setting {
	var list []Setting
	for _, number := range []struct {
		name  string
		value *int32
	}{
		{"rdma-traffic-class", rdma.TrafficClass}, {"rdma-service-level", rdma.ServiceLevel},
		{"rdma-pkey-index", rdma.PartitionKeyIndex}, {"rdma-mtu", rdma.MTU},
	} {
		if number.value != nil {
			list = append(list, Setting{Name: number.name, Value: strconv.Itoa(int(*number.value)), Number: true})
		}
	}
	if rdma.GID != "" {
		list = append(list, Setting{Name: "rdma-gid", Value: strings.ToLower(rdma.GID)})
	}
	if rdma.OnDemandPaging == v1alpha1.SwitchEnabled {
		list = append(list, Setting{Name: "rdma-odp", Value: "on"})
	}
	return list
}

// extraSettings are the options of spec.extraConfig, by name.
func extraSettings(extra map[string]string) []Setting {
	var list []Setting
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		_, err := strconv.ParseUint(extra[name], 10, 63)
		list = append(list, Setting{Name: name, Value: extra[name], Number: err == nil})
	}
	return list
}
