// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// ComponentDevicePlugin is the component label of the device plug-in.
	ComponentDevicePlugin = "device-plugin"

	devicePluginConfig = "config.json"
	// devicePluginConfigDir is where the plug-in reads its configuration by default.
	devicePluginConfigDir = "/k8s-rdma-shared-dev-plugin"
	// rescanSeconds is how often the plug-in looks for new ports.
	rescanSeconds = 60
)

// devicePluginFile is the configuration of k8s-rdma-shared-dev-plugin 1.5.
type devicePluginFile struct {
	PeriodicUpdateInterval int                    `json:"periodicUpdateInterval"`
	ConfigList             []devicePluginResource `json:"configList"`
}

type devicePluginResource struct {
	ResourceName   string                `json:"resourceName"`
	ResourcePrefix string                `json:"resourcePrefix"`
	RdmaHcaMax     int32                 `json:"rdmaHcaMax"`
	Selectors      devicePluginSelectors `json:"selectors"`
}

type devicePluginSelectors struct {
	Vendors   []string `json:"vendors,omitempty"`
	DeviceIDs []string `json:"deviceIDs,omitempty"`
	Drivers   []string `json:"drivers,omitempty"`
	IfNames   []string `json:"ifNames,omitempty"`
}

func devicePluginName(cluster string) string { return cluster + "-" + ComponentDevicePlugin }

// buildDevicePlugin returns the configuration of the plug-in and the DaemonSet that runs it.
func buildDevicePlugin(cluster *v1alpha1.PeerCacheCluster, spec v1alpha1.DevicePluginSpec) (*corev1.ConfigMap, *appsv1.DaemonSet) {
	file := renderDevicePlugin(cluster.Spec, spec)
	config := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: componentMeta(cluster, devicePluginName(cluster.Name), ComponentDevicePlugin),
		Data:       map[string]string{devicePluginConfig: file},
	}
	labels := config.Labels
	daemonSet := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: componentMeta(cluster, devicePluginName(cluster.Name), ComponentDevicePlugin),
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{
				v1alpha1.LabelCluster: cluster.Name, LabelComponent: ComponentDevicePlugin,
			}},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      maps.Clone(labels),
					Annotations: map[string]string{v1alpha1.AnnotationConfigHash: digest([]byte(file))},
				},
				Spec: devicePluginPod(cluster, spec.Image),
			},
		},
	}
	return config, daemonSet
}

// renderDevicePlugin writes one resource per rail, in the order of names.
func renderDevicePlugin(spec v1alpha1.PeerCacheClusterSpec, plugin v1alpha1.DevicePluginSpec) string {
	file := devicePluginFile{PeriodicUpdateInterval: rescanSeconds}
	for _, wanted := range plugin.Resources {
		prefix, name, _ := strings.Cut(railNamed(spec, wanted.Rail).ResourceName(), "/")
		file.ConfigList = append(file.ConfigList, devicePluginResource{
			ResourceName: name, ResourcePrefix: prefix, RdmaHcaMax: wanted.Shares,
			Selectors: devicePluginSelectors{
				Vendors: wanted.Selectors.Vendors, DeviceIDs: wanted.Selectors.DeviceIDs,
				Drivers: wanted.Selectors.Drivers, IfNames: wanted.Selectors.Interfaces,
			},
		})
	}
	slices.SortFunc(file.ConfigList, func(a, b devicePluginResource) int { return strings.Compare(a.ResourceName, b.ResourceName) })
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		panic(err) // encoding a struct of strings and numbers cannot fail
	}
	return string(text) + "\n"
}

// devicePluginPod is privileged: the plug-in talks to the kubelet over sockets in its folders, and hands out character devices.
// It uses the host network to see the ports of the machine.
func devicePluginPod(cluster *v1alpha1.PeerCacheCluster, image string) corev1.PodSpec {
	spec := cluster.Spec
	pod := corev1.PodSpec{
		HostNetwork:                  true,
		PriorityClassName:            "system-node-critical",
		AutomountServiceAccountToken: new(false),
		ServiceAccountName:           serviceAccountName(cluster.Name),
		ImagePullSecrets:             spec.ImagePullSecrets,
		NodeSelector:                 over(linux, spec.Nodes.Selector),
		Tolerations:                  spec.Nodes.Tolerations,
		Affinity:                     machinesWithRails(spec),
		Containers: []corev1.Container{{
			Name:            ComponentDevicePlugin,
			Image:           image,
			ImagePullPolicy: corev1.PullIfNotPresent,
			SecurityContext: &corev1.SecurityContext{Privileged: new(true), ReadOnlyRootFilesystem: new(true)},
			VolumeMounts:    []corev1.VolumeMount{{Name: volumeConfig, MountPath: devicePluginConfigDir, ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{{Name: volumeConfig, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: devicePluginName(cluster.Name)},
			},
		}}},
	}
	for _, pool := range spec.NodePools {
		if len(pool.Rails) > 0 {
			pod.Tolerations = append(slices.Clip(pod.Tolerations), pool.Tolerations...)
		}
	}
	for _, folder := range []struct{ name, path string }{
		{"device-plugins", "/var/lib/kubelet/device-plugins"},
		{"plugins-registry", "/var/lib/kubelet/plugins_registry"},
		{"devices", "/dev"},
	} {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: folder.name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: folder.path},
		}})
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: folder.name, MountPath: folder.path})
	}
	return pod
}

// machinesWithRails matches the machines of every pool that has rails. It returns nil for all machines.
func machinesWithRails(spec v1alpha1.PeerCacheClusterSpec) *corev1.Affinity {
	if len(spec.NodePools) == 0 {
		return nil
	}
	var terms []corev1.NodeSelectorTerm // a machine must match one of them
	for _, pool := range spec.NodePools {
		if len(pool.Rails) == 0 {
			continue
		}
		var term corev1.NodeSelectorTerm
		for _, label := range slices.Sorted(maps.Keys(pool.Selector)) {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{pool.Selector[label]},
			})
		}
		terms = append(terms, term)
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

// railNamed relies on the CRD, which refuses unknown names of rails.
func railNamed(spec v1alpha1.PeerCacheClusterSpec, name string) v1alpha1.Rail {
	i := slices.IndexFunc(spec.Rails, func(r v1alpha1.Rail) bool { return r.Name == name })
	if i < 0 {
		return v1alpha1.Rail{Name: name}
	}
	return spec.Rails[i]
}
