// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	poolSizeOption = "pool-size"
	// ContainerName is the name of the container that runs peercached.
	ContainerName = "peercached"

	configDir    = "/etc/peercache"
	tlsDir       = "/etc/peercache-tls" // not below configDir: a ConfigMap volume cannot hold another mount
	caKey        = "ca.crt"             // the key of the CA in a kubernetes.io/tls Secret of cert-manager
	volumeConfig = "config"
	volumeSocket = "socket"
	volumeTLS    = "tls"
	// What the operator tells a member by its pod's labels. A kubelet writes it anew as soon as they change.
	volumeSwitches = "switches"
	switchesDir    = "/etc/peercache-switches"
	bypassFile     = "bypass"
	portPeer       = "peer"
	portHTTP       = "http"
)

func buildPodSpec(cluster *v1alpha1.PeerCacheCluster, group Group, image string) corev1.PodSpec {
	spec := cluster.Spec
	pod := corev1.PodSpec{
		ServiceAccountName:            serviceAccountName(cluster.Name),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		NodeSelector:                  nodeSelector(spec, group),
		Tolerations:                   tolerations(spec, group),
		Affinity:                      affinity(cluster, group),
		PriorityClassName:             spec.Nodes.PriorityClassName,
		ImagePullSecrets:              spec.ImagePullSecrets,
		TerminationGracePeriodSeconds: new(int64(shutdownSeconds)),
		DNSPolicy:                     corev1.DNSClusterFirst,
		SecurityContext:               buildPodSecurityContext(spec, group),
		InitContainers:                []corev1.Container{buildSocketDirectory(spec, group, image)},
		Containers:                    []corev1.Container{buildContainer(spec, group, image)},
		Volumes: []corev1.Volume{
			{Name: volumeConfig, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: configMapName(cluster.Name)},
			}}},
			{Name: volumeSwitches, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
				Items: []corev1.DownwardAPIVolumeFile{{Path: bypassFile, FieldRef: &corev1.ObjectFieldSelector{
					APIVersion: "v1", FieldPath: "metadata.labels['" + v1alpha1.LabelBypass + "']",
				}}},
			}}},
		},
	}
	pod.Volumes = append(pod.Volumes, socketVolumes(cluster)...)
	group.addPool(&pod, cluster)
	group.addDisk(&pod, cluster)
	for _, m := range secretMounts(cluster) {
		secret := m.in(m.volume, 0o440)
		pod.Volumes = append(pod.Volumes, secret.Volume)
		mounts := &pod.Containers[0].VolumeMounts
		*mounts = append(*mounts, secret.Mount)
	}
	pod.ResourceClaims, pod.Containers[0].Resources.Claims = group.claims()
	if group.onHostNetwork() {
		pod.HostNetwork = true
		pod.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
	return pod
}

func buildContainer(spec v1alpha1.PeerCacheClusterSpec, group Group, image string) corev1.Container {
	return corev1.Container{
		Name:            ContainerName,
		Image:           image,
		ImagePullPolicy: spec.ImagePullPolicy,
		Args:            []string{"--config=" + path.Join(configDir, configKey)},
		Env:             buildEnv(spec, group),
		Resources:       buildResources(spec, group),
		Ports: []corev1.ContainerPort{
			{Name: portPeer, ContainerPort: spec.Discovery.Port, Protocol: corev1.ProtocolTCP},
			{Name: portHTTP, ContainerPort: spec.Monitoring.Port, Protocol: corev1.ProtocolTCP},
		},
		VolumeMounts: append([]corev1.VolumeMount{
			{Name: volumeConfig, MountPath: configDir, ReadOnly: true},
			{Name: volumeSwitches, MountPath: switchesDir, ReadOnly: true},
		}, socketMounts(spec.Sharing)...),
		// Allocating a large pool takes minutes, above all on a machine that has to compact memory for huge pages.
		StartupProbe:    buildProbe("/healthz", 2, 300),
		LivenessProbe:   buildProbe("/healthz", 10, 6),
		ReadinessProbe:  buildProbe("/readyz", 2, 2),
		SecurityContext: buildSecurityContext(spec, group),
	}
}

func fromField(name, field string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: field},
	}}
}

// buildEnv returns the settings that differ between groups and machines. NODE_NAME and POD_IP come first, because $(NAME)
// refers to variables that are defined before.
func buildEnv(spec v1alpha1.PeerCacheClusterSpec, group Group) []corev1.EnvVar {
	env := []corev1.EnvVar{fromField("NODE_NAME", "spec.nodeName"), fromField("POD_IP", "status.podIP")}
	list := nodeSettings(spec, group, "$(NODE_NAME)."+group.Name)
	if group.keepsPool(spec) {
		for i := range list {
			if list[i].Name == poolSizeOption {
				list[i].Value = byteSize(group.filePool(spec))
			}
		}
		list = append(list, Setting{Name: "pool-file", Value: poolDir}, Setting{Name: "pool-file-view", Value: poolViewDir})
	}
	list = append(list, Setting{Name: "bypass-file", Value: path.Join(switchesDir, bypassFile)})
	list = append(list, group.diskSettings(spec)...)
	list = append(list, directorySettings(spec)...)
	return append(env, variables(list)...)
}

// PodAddress is the default address at which other nodes reach a node. Only the environment of a container can express
// it.
const PodAddress = "$(POD_IP)"

// nodeSettings are the settings of one node.
func nodeSettings(spec v1alpha1.PeerCacheClusterSpec, group Group, id string) []Setting {
	list := []Setting{
		{Name: "node-id", Value: id},
		{Name: "group", Value: group.FullName()},
		{Name: "advertise-addr", Value: cmp.Or(spec.Discovery.Interface, PodAddress)},
		{Name: "socket", Value: SocketPath(group.Name)},
		{Name: poolSizeOption, Value: byteSize(group.Memory(spec).Pool)},
		{Name: "huge-pages", Value: hugePages(group.Memory(spec).HugePages)},
		{Name: "transport", Value: strings.ToLower(string(group.transport(spec)))},
	}
	if devices := group.devices(); len(devices) > 0 && group.rdma(spec) {
		list = append(list, Setting{Name: "device-name", Value: strings.Join(devices, ",")})
	}
	// Without a known NUMA node, peercached finds it from its devices.
	if node := group.numaNode(); node != "" {
		list = append(list, Setting{Name: "numa-node", Value: node})
	}
	return list
}

// variables converts settings to the environment variables of peercached.
func variables(settings []Setting) []corev1.EnvVar {
	env := make([]corev1.EnvVar, len(settings))
	for i, s := range settings {
		env[i] = corev1.EnvVar{Name: variableOf(s.Name), Value: s.Value}
	}
	return env
}

func buildProbe(path string, periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromString(portHTTP), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds:    periodSeconds,
		TimeoutSeconds:   2,
		SuccessThreshold: 1,
		FailureThreshold: failures,
	}
}
