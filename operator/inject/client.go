// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
)

// NonRootUser is the user of added containers where neither the pod nor its namespace gives one. Any user that is not root can run
// them.
const NonRootUser int64 = 65532

// addClient gives the pod the Python client, and returns the mounts for its containers or a reason. Every delivery uses the
// same path.
func addClient(pod *corev1.Pod, facts Facts) (mounts []corev1.VolumeMount, reason string) {
	switch facts.Delivery {
	case v1alpha1.ClientPreinstalled:
		return nil, ""
	case v1alpha1.ClientImageVolume:
		if reason := addVolume(pod, clientImage(facts)); reason != "" {
			return nil, reason
		}
	default:
		if reason := addVolume(pod, emptyVolume(names.Client)); reason != "" {
			return nil, reason
		}
		if reason := addInitContainer(pod, facts); reason != "" {
			return nil, reason
		}
	}
	addPullSecrets(pod, facts)
	return []corev1.VolumeMount{ClientMount(facts)}, ""
}

// ClientMount is the mount of the client in a connected container.
func ClientMount(facts Facts) corev1.VolumeMount {
	mount := corev1.VolumeMount{Name: names.Client, MountPath: names.ClientDir, ReadOnly: true}
	if facts.Delivery == v1alpha1.ClientImageVolume {
		mount.SubPath = strings.TrimPrefix(names.ClientDir, "/")
	}
	return mount
}

// ClientVolume is the volume that holds the client. With v1alpha1.ClientPreinstalled there is no volume.
func ClientVolume(facts Facts) corev1.Volume {
	if facts.Delivery == v1alpha1.ClientImageVolume {
		return clientImage(facts).volume
	}
	return emptyVolume(names.Client).volume
}

func clientImage(facts Facts) podVolume {
	return podVolume{
		corev1.Volume{Name: names.Client, VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: facts.ClientImage, PullPolicy: facts.ClientPullPolicy},
		}},
		func(v corev1.Volume) bool { return v.Image != nil && v.Image.Reference == facts.ClientImage },
	}
}

func addPullSecrets(pod *corev1.Pod, facts Facts) {
	for _, secret := range facts.PullSecrets {
		if !slices.Contains(pod.Spec.ImagePullSecrets, secret) {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, secret)
		}
	}
}

// addInitContainer adds the container that copies the client, or returns a reason.
func addInitContainer(pod *corev1.Pod, facts Facts) (reason string) {
	switch have := findContainer(pod, names.Client); {
	case have == nil:
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, ClientContainer(pod, facts))
	case !mountsAt(have, names.Client, names.ClientCopyDir):
		return reasons.ContainerTaken(names.Client)
	}
	return ""
}

// findContainer searches all containers of the pod, which share one name space.
func findContainer(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

func mountsAt(c *corev1.Container, volume, path string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == volume && m.MountPath == path
	})
}

// ClientContainer is the init container that copies the client into its volume.
func ClientContainer(pod *corev1.Pod, facts Facts) corev1.Container {
	// Equal requests and limits keep a Guaranteed pod Guaranteed. Init containers run one after another before the others,
	// so these amounts do not add to the requests of the pod.
	need := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("100m"),
		corev1.ResourceMemory: resource.MustParse("128Mi"),
	}
	security := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		RunAsNonRoot:             new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	runAsNonRoot(pod, security, facts)
	c := corev1.Container{
		Name:            names.Client,
		Image:           facts.ClientImage,
		ImagePullPolicy: facts.ClientPullPolicy,
		// cp -a would set the times of the volume's root directory. That directory belongs to root, so cp -a would
		// fail.
		Command:         []string{"cp", "-r", names.ClientDir + "/.", names.ClientCopyDir + "/"},
		Resources:       corev1.ResourceRequirements{Requests: need, Limits: need.DeepCopy()},
		VolumeMounts:    []corev1.VolumeMount{{Name: names.Client, MountPath: names.ClientCopyDir}},
		SecurityContext: security,
	}
	facts.Admission.raise(&c, true)
	return c
}

// runAsNonRoot sets a user only where the pod chooses none or root.
func runAsNonRoot(pod *corev1.Pod, security *corev1.SecurityContext, facts Facts) {
	if pod.Spec.SecurityContext == nil || pod.Spec.SecurityContext.RunAsUser == nil || *pod.Spec.SecurityContext.RunAsUser == 0 {
		security.RunAsUser = new(facts.Admission.user())
	}
}
