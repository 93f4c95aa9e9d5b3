// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// sharedResourceName matches what k8s-rdma-shared-dev-plugin accepts after the prefix.
var sharedResourceName = regexp.MustCompile(`^[a-zA-Z0-9_]+$`)

// buildExtras returns the objects that the cluster asks for besides its nodes. Some of their kinds may not exist.
func buildExtras(cluster *v1alpha1.PeerCacheCluster, facts Facts) []client.Object {
	var extras []client.Object
	for _, network := range cluster.Spec.Provision.Networks {
		extras = append(extras, buildNetwork(cluster, network))
	}
	if plugin := cluster.Spec.Provision.DevicePlugin; plugin != nil {
		config, daemonSet := buildDevicePlugin(cluster, *plugin)
		extras = append(extras, config, daemonSet)
	}
	return append(extras, buildMonitoring(cluster, facts.Runbooks)...)
}

// checkProvision detects combinations that cannot be provisioned.
func checkProvision(spec v1alpha1.PeerCacheClusterSpec) func([]Group) *Problem {
	return func(groups []Group) *Problem {
		if problem := checkDevicePlugin(spec, groups); problem != nil {
			return problem
		}
		return checkNetworks(spec)
	}
}

func checkDevicePlugin(spec v1alpha1.PeerCacheClusterSpec, groups []Group) *Problem {
	plugin := spec.Provision.DevicePlugin
	if plugin == nil {
		return nil
	}
	for _, group := range groups {
		if group.FullName() == ComponentDevicePlugin {
			return provisionProblem("group %q would share its DaemonSet's name with provision.devicePlugin: rename the group",
				group.FullName())
		}
	}
	owner := map[string]string{}
	for _, wanted := range plugin.Resources {
		_, name, _ := strings.Cut(railNamed(spec, wanted.Rail).ResourceName(), "/")
		if !sharedResourceName.MatchString(name) {
			return provisionProblem("resource %q of rail %q cannot be offered by k8s-rdma-shared-dev-plugin, which accepts letters, "+
				"digits and '_' only: write for example resourceName: rdma/rail_0", name, wanted.Rail)
		}
		if other, taken := owner[name]; taken {
			return provisionProblem("rails %q and %q both request resource %q, which provision.devicePlugin can make of one list of "+
				"ports only: name one of them there, or give each rail its own resourceName", other, wanted.Rail, name)
		}
		owner[name] = wanted.Rail
	}
	return nil
}

func checkNetworks(spec v1alpha1.PeerCacheClusterSpec) *Problem {
	owner := map[string]string{}
	for _, network := range spec.Provision.Networks {
		rail := railNamed(spec, network.Rail)
		attached := rail.Attached()
		if other, taken := owner[attached.Name]; taken {
			return provisionProblem("rails %q and %q both name network %q, which provision.networks can make once only: remove one of "+
				"them there, or give each rail its own network", other, rail.Name, attached.Name)
		}
		owner[attached.Name] = rail.Name
		switch {
		case network.IPAM.Type == v1alpha1.IPAMStatic && len(attached.IPs) == 0:
			return provisionProblem("network %q has ipam type Static, but rail %q names no addresses: add rails[].network.ips, or write "+
				"type: Whereabouts", attached.Name, rail.Name)
		case network.IPAM.Type != v1alpha1.IPAMStatic && len(attached.IPs) > 0:
			return provisionProblem("rail %q names ips, which need ipam type Static in provision.networks: write type: Static, or "+
				"remove ips", rail.Name)
		case network.Type == v1alpha1.NetworkIPVLAN && attached.MAC != "":
			return provisionProblem("rail %q names a mac, but interfaces of type IPVLAN have that of the port: remove mac, or write "+
				"type: Macvlan", rail.Name)
		}
	}
	return nil
}

func provisionProblem(format string, args ...any) *Problem {
	return &Problem{Reason: "ProvisionConflict", Message: fmt.Sprintf(format, args...)}
}
