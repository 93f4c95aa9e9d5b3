// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"testing"

	"github.com/peercache/peercache/api/v1alpha1"
)

func TestDiscoveryService(t *testing.T) {
	desired := mustPlan(t, testCluster(func(s *v1alpha1.PeerCacheClusterSpec) { s.Discovery.Port = 4000 }))
	service := desired.Discovery
	if service.Spec.ClusterIP != "None" {
		t.Errorf("clusterIP is %q: the name must resolve to every host", service.Spec.ClusterIP)
	}
	if !service.Spec.PublishNotReadyAddresses {
		t.Error("hosts must be listed before they are ready, or the first node never becomes ready")
	}
	want := map[string]string{"peercache.io/cluster": "demo", "peercache.io/discovery": "host"}
	if !maps.Equal(service.Spec.Selector, want) {
		t.Errorf("selector is %v, want %v", service.Spec.Selector, want)
	}
	port := service.Spec.Ports[0]
	container := desired.DaemonSets[0].Spec.Template.Spec.Containers[0]
	if port.Port != 4000 || port.TargetPort.StrVal != container.Ports[0].Name || container.Ports[0].ContainerPort != 4000 {
		t.Errorf("service port %+v does not lead to container port %+v", port, container.Ports[0])
	}
}

func TestServiceAccountGivesNoToken(t *testing.T) {
	desired := mustPlan(t, testCluster())
	if mount := desired.ServiceAccount.AutomountServiceAccountToken; mount == nil || *mount {
		t.Error("the ServiceAccount must not mount a token")
	}
	pod := desired.DaemonSets[0].Spec.Template.Spec
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the pod must not mount a token")
	}
	if pod.ServiceAccountName != desired.ServiceAccount.Name {
		t.Errorf("the pod runs as %q, not as %q", pod.ServiceAccountName, desired.ServiceAccount.Name)
	}
}
