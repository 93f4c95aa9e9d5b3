// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	componentMetrics = "metrics"
	// labelOfNode is the label of the metrics with the name of the machine.
	labelOfNode = "node"
)

// targetLabels become labels of the metrics. Prometheus replaces disallowed characters by _: peercache_io_cluster.
var targetLabels = []string{v1alpha1.LabelCluster, v1alpha1.LabelPool, v1alpha1.LabelGroup}

func metricsName(cluster string) string { return cluster + "-metrics" }

// buildMonitoring returns the objects for the Prometheus Operator and Grafana.
func buildMonitoring(cluster *v1alpha1.PeerCacheCluster, runbooks string) []client.Object {
	spec := cluster.Spec.Monitoring
	var objects []client.Object
	switch spec.Scrape {
	case v1alpha1.ScrapePodMonitor:
		objects = append(objects, buildPodMonitor(cluster))
	case v1alpha1.ScrapeServiceMonitor:
		objects = append(objects, buildMetricsService(cluster), buildServiceMonitor(cluster))
	}
	if cluster.Spec.Injection.Mode == v1alpha1.InjectionSidecar && spec.Scrape != v1alpha1.ScrapeNone {
		objects = append(objects, buildSidecarMonitor(cluster))
	}
	if spec.Rules == v1alpha1.RulesPrometheusRule {
		objects = append(objects, buildRules(cluster, runbooks))
	}
	if spec.Dashboards == v1alpha1.DashboardsConfigMap {
		objects = append(objects, buildDashboards(cluster))
	}
	return objects
}

func monitorMeta(cluster *v1alpha1.PeerCacheCluster, name string) metav1.ObjectMeta {
	meta := componentMeta(cluster, name, componentMetrics)
	labels := maps.Clone(cluster.Spec.Monitoring.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, meta.Labels) // these override user labels, because the operator finds its objects by them
	meta.Labels = labels
	return meta
}

// nodesOf are the labels that select the pods of all the cluster's nodes.
func nodesOf(cluster *v1alpha1.PeerCacheCluster) map[string]string {
	return map[string]string{v1alpha1.LabelCluster: cluster.Name, LabelComponent: ComponentNode}
}

func machineLabel() []monitoringv1.RelabelConfig {
	return []monitoringv1.RelabelConfig{{
		SourceLabels: []monitoringv1.LabelName{"__meta_kubernetes_pod_node_name"}, TargetLabel: labelOfNode,
	}}
}

func buildPodMonitor(cluster *v1alpha1.PeerCacheCluster) *monitoringv1.PodMonitor {
	return &monitoringv1.PodMonitor{
		TypeMeta:   metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: monitoringv1.PodMonitorsKind},
		ObjectMeta: monitorMeta(cluster, metricsName(cluster.Name)),
		Spec: monitoringv1.PodMonitorSpec{
			Selector:        metav1.LabelSelector{MatchLabels: nodesOf(cluster)},
			PodTargetLabels: targetLabels,
			PodMetricsEndpoints: []monitoringv1.PodMetricsEndpoint{{
				Port:           new(portHTTP),
				Interval:       monitoringv1.Duration(cluster.Spec.Monitoring.Interval),
				RelabelConfigs: machineLabel(),
			}},
		},
	}
}

// buildMetricsService returns the Service for the ServiceMonitor. The discovery Service selects discovery hosts only.
func buildMetricsService(cluster *v1alpha1.PeerCacheCluster) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: componentMeta(cluster, metricsName(cluster.Name), componentMetrics),
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceTypeClusterIP,
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true, // nodes that are not ready must be scraped too
			Selector:                 nodesOf(cluster),
			Ports: []corev1.ServicePort{{
				Name: portHTTP, Protocol: corev1.ProtocolTCP, Port: cluster.Spec.Monitoring.Port,
				TargetPort: intstr.FromString(portHTTP),
			}},
		},
	}
}

func buildServiceMonitor(cluster *v1alpha1.PeerCacheCluster) *monitoringv1.ServiceMonitor {
	return &monitoringv1.ServiceMonitor{
		TypeMeta:   metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: monitoringv1.ServiceMonitorsKind},
		ObjectMeta: monitorMeta(cluster, metricsName(cluster.Name)),
		Spec: monitoringv1.ServiceMonitorSpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{
				v1alpha1.LabelCluster: cluster.Name, LabelComponent: componentMetrics,
			}},
			PodTargetLabels: targetLabels,
			Endpoints: []monitoringv1.Endpoint{{
				Port:           portHTTP,
				Interval:       monitoringv1.Duration(cluster.Spec.Monitoring.Interval),
				RelabelConfigs: machineLabel(),
			}},
		},
	}
}

// buildSidecarMonitor selects the sidecars of the cluster in all namespaces: the pods that ask for the cluster and have the
// sidecar's port. It is a PodMonitor with either kind of scraping, because a Service selects pods of its own namespace only. It
// sets the labels of the metrics to those of the cluster's own nodes, so that rules and dashboards cover both. The namespace of
// the pod is in pod_namespace.
func buildSidecarMonitor(cluster *v1alpha1.PeerCacheCluster) *monitoringv1.PodMonitor {
	const (
		namespace        = "__meta_kubernetes_namespace"
		clusterNamespace = "__meta_kubernetes_pod_annotation_peercache_io_cluster_namespace" // v1alpha1.AnnotationClusterNamespace
		clusterName      = "__meta_kubernetes_pod_label_peercache_io_inject"                 // v1alpha1.LabelInject
	)
	from := func(target string, sources ...monitoringv1.LabelName) monitoringv1.RelabelConfig {
		return monitoringv1.RelabelConfig{SourceLabels: sources, TargetLabel: target}
	}
	// A cluster of the same name in the pod's own namespace is another cluster.
	keepOwn := monitoringv1.RelabelConfig{
		SourceLabels: []monitoringv1.LabelName{namespace, clusterNamespace}, Action: "keep",
		Regex: fmt.Sprintf("%[1]s;|.*;%[1]s", cluster.Namespace),
	}
	ownNamespace := monitoringv1.RelabelConfig{TargetLabel: "namespace", Replacement: new(cluster.Namespace)}
	return &monitoringv1.PodMonitor{
		TypeMeta:   metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: monitoringv1.PodMonitorsKind},
		ObjectMeta: monitorMeta(cluster, cluster.Name+"-sidecars"),
		Spec: monitoringv1.PodMonitorSpec{
			NamespaceSelector: monitoringv1.NamespaceSelector{Any: true},
			Selector:          metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelInject: cluster.Name}},
			PodTargetLabels:   []string{v1alpha1.LabelGroup},
			PodMetricsEndpoints: []monitoringv1.PodMetricsEndpoint{{
				Port:           new(sidecarHTTP),
				Interval:       monitoringv1.Duration(cluster.Spec.Monitoring.Interval),
				RelabelConfigs: append(machineLabel(), keepOwn, from("pod_namespace", namespace), ownNamespace, from("peercache_io_cluster", clusterName)),
			}},
		},
	}
}
