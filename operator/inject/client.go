// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

// nobody is the user of added containers where the pod chooses none: any that is not root will do.
const nobody int64 = 65532

// addClient gives the pod the Python client and returns how containers mount it, or says why it cannot. Whatever
// the delivery, they find it at the same path.
func addClient(pod *corev1.Pod, facts Facts) (mounts []corev1.VolumeMount, reason string) {
	switch facts.Delivery {
	case v1alpha1.ClientPreinstalled:
		return nil, ""
	case v1alpha1.ClientImageVolume:
		if reason := addVolume(pod, clientImage(facts)); reason != "" {
			return nil, reason
		}
	default:
		if reason := addVolume(pod, emptyVolume(clientName)); reason != "" {
			return nil, reason
		}
		if reason := addInitContainer(pod, facts); reason != "" {
			return nil, reason
		}
	}
	addPullSecrets(pod, facts)
	return []corev1.VolumeMount{clientMount(facts)}, ""
}

// clientMount is where SGLang finds the client.
func clientMount(facts Facts) corev1.VolumeMount {
	mount := corev1.VolumeMount{Name: clientName, MountPath: clientDir, ReadOnly: true}
	if facts.Delivery == v1alpha1.ClientImageVolume {
		mount.SubPath = strings.TrimPrefix(clientDir, "/")
	}
	return mount
}

func clientImage(facts Facts) podVolume {
	return podVolume{
		corev1.Volume{Name: clientName, VolumeSource: corev1.VolumeSource{
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

// addInitContainer adds the container that copies the client, or says why it cannot.
func addInitContainer(pod *corev1.Pod, facts Facts) (reason string) {
	switch have := findContainer(pod, clientName); {
	case have == nil:
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, clientContainer(pod, facts))
	case !mountsAt(have, clientName, clientCopyDir):
		return reasonContainerTaken(clientName)
	}
	return ""
}

// findContainer looks for a name among all containers of the pod, which share one space of names.
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

func clientContainer(pod *corev1.Pod, facts Facts) corev1.Container {
	// Equal requests and limits keep a Guaranteed pod Guaranteed. Init containers run one after another
	// before the others, so this little is never added to what the pod needs.
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
	runAsNobody(pod, security)
	return corev1.Container{
		Name:            clientName,
		Image:           facts.ClientImage,
		ImagePullPolicy: facts.ClientPullPolicy,
		// Not cp -a: it would set the times of the volume's root directory, which belongs to root, and fail.
		Command:         []string{"cp", "-r", clientDir + "/.", clientCopyDir + "/"},
		Resources:       corev1.ResourceRequirements{Requests: need, Limits: need.DeepCopy()},
		VolumeMounts:    []corev1.VolumeMount{{Name: clientName, MountPath: clientCopyDir}},
		SecurityContext: security,
	}
}

// runAsNobody leaves the user to the pod, unless that would be root.
func runAsNobody(pod *corev1.Pod, security *corev1.SecurityContext) {
	if pod.Spec.SecurityContext == nil || pod.Spec.SecurityContext.RunAsUser == nil || *pod.Spec.SecurityContext.RunAsUser == 0 {
		security.RunAsUser = new(nobody)
	}
}
