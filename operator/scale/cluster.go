// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

const (
	servingNamespace = "serving"
	clusterName      = "kv"
	// hostReplicas is the default number of discovery hosts.
	hostReplicas = 3
)

func railResource(rail int) string { return fmt.Sprintf("rdma/rail%d", rail) }
func railNetwork(rail int) string  { return fmt.Sprintf("rail%d", rail) }
func groupName(group int) string   { return fmt.Sprintf("numa%d", group) }

// newCluster returns the PeerCacheCluster that is applied.
func newCluster(c config, httpPort int) *v1alpha1.PeerCacheCluster {
	cluster := &v1alpha1.PeerCacheCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: servingNamespace, Name: clusterName},
		Spec: v1alpha1.PeerCacheClusterSpec{
			Transport: v1alpha1.TransportRDMA, Layout: v1alpha1.LayoutPerNUMA,
			Memory:     v1alpha1.MemorySpec{Pool: resource.MustParse("64Gi"), HugePages: v1alpha1.HugePages1Gi},
			Nodes:      v1alpha1.NodesSpec{Selector: map[string]string{selectorLabel: "true"}},
			Monitoring: v1alpha1.MonitoringSpec{Port: int32(httpPort)}, //nolint:gosec // it is a port
		},
	}
	for rail := range c.groups * c.rails {
		cluster.Spec.Rails = append(cluster.Spec.Rails, v1alpha1.Rail{
			Name: railNetwork(rail), NUMANode: new(int32(rail / c.rails)), //nolint:gosec // at most 32
			Attachment:         v1alpha1.AttachmentSharedDevicePlugin,
			SharedDevicePlugin: &v1alpha1.SharedDevice{ResourceName: v1alpha1.ExtendedResource(railResource(rail))},
			Network:            &v1alpha1.RailNetwork{Name: railNetwork(rail)},
		})
	}
	return cluster
}

// newNetworks returns the networks of its rails.
func newNetworks(c config) []client.Object {
	networks := make([]client.Object, c.groups*c.rails)
	for rail := range networks {
		network := &unstructured.Unstructured{}
		network.SetGroupVersionKind(plan.NetworkKind)
		network.SetNamespace(servingNamespace)
		network.SetName(railNetwork(rail))
		network.SetAnnotations(map[string]string{plan.NetworkResource: railResource(rail)})
		networks[rail] = network
	}
	return networks
}

// incomplete returns what a status still lacks, or "".
func incomplete(c config, cluster *v1alpha1.PeerCacheCluster) string {
	status, want := cluster.Status, int32(c.nodes*c.groups) //nolint:gosec // see validate
	rails := want * int32(c.rails)                          //nolint:gosec // see validate
	switch {
	case status.DesiredMembers != want || status.ReadyMembers != want || status.UpdatedMembers != want:
		return fmt.Sprintf("members %s of %d", status.Members, want)
	case status.ActiveMembers != want:
		return fmt.Sprintf("%d active members of %d", status.ActiveMembers, want)
	case status.Rails.Ready != rails || status.Rails.Desired != rails:
		return fmt.Sprintf("%d rails of %d", status.Rails.Ready, rails)
	}
	for kind, good := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionAvailable: metav1.ConditionTrue, v1alpha1.ConditionReady: metav1.ConditionTrue, v1alpha1.ConditionConfigAccepted: metav1.ConditionTrue,
		v1alpha1.ConditionNetworksResolved: metav1.ConditionTrue, v1alpha1.ConditionDevicesAvailable: metav1.ConditionTrue,
		v1alpha1.ConditionInjectionReady: metav1.ConditionTrue, v1alpha1.ConditionRailsHealthy: metav1.ConditionTrue,
		v1alpha1.ConditionNUMAAligned: metav1.ConditionTrue, v1alpha1.ConditionProgressing: metav1.ConditionFalse,
		v1alpha1.ConditionDegraded: metav1.ConditionFalse,
	} {
		condition := meta.FindStatusCondition(status.Conditions, kind)
		if condition == nil {
			return "no condition " + kind
		}
		if condition.Status != good {
			return fmt.Sprintf("%s is %s (%s)", kind, condition.Status, condition.Message)
		}
	}
	return ""
}

// misplacedHosts returns how the discovery hosts are placed until each has its own machine and zone, as far as there are enough.
// Then it returns "".
func misplacedHosts(ctx context.Context, from client.Client, c config) (string, error) {
	var hosts corev1.PodList
	if err := from.List(ctx, &hosts, client.InNamespace(servingNamespace),
		client.MatchingLabels{v1alpha1.LabelDiscovery: v1alpha1.DiscoveryHost}); err != nil {
		return "", fmt.Errorf("listing discovery hosts: %w", err)
	}
	machines, inZones := map[string]bool{}, map[string]bool{}
	for _, host := range hosts.Items {
		machine := &corev1.Node{}
		if err := from.Get(ctx, client.ObjectKey{Name: host.Spec.NodeName}, machine); err != nil {
			return "", fmt.Errorf("reading the machine of discovery host %s: %w", host.Name, err)
		}
		machines[machine.Name], inZones[machine.Labels[corev1.LabelTopologyZone]] = true, true
	}
	want := min(hostReplicas, c.nodes)
	if len(hosts.Items) == min(hostReplicas, c.nodes*c.groups) && len(machines) == want && len(inZones) == min(want, zones) {
		return "", nil
	}
	return fmt.Sprintf("%d discovery hosts on %d machines in %d zones", len(hosts.Items), len(machines), len(inZones)), nil
}
