// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// nobody is the user of the init container where the pod chooses none: any that is not root will do.
const nobody int64 = 65532

// addInitContainer adds the container that copies the client, or says why it cannot.
func addInitContainer(pod *corev1.Pod, facts Facts) (reason string) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == clientName })
		if i < 0 {
			continue
		}
		if !slices.ContainsFunc(list[i].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == clientName && m.MountPath == clientCopyDir
		}) {
			return "the pod has a container of its own named " + quote(clientName) + ": rename it"
		}
		return ""
	}
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, clientContainer(pod, facts))
	for _, secret := range facts.PullSecrets {
		if !slices.Contains(pod.Spec.ImagePullSecrets, secret) {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, secret)
		}
	}
	return ""
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
	if user := podUser(pod); user == nil || *user == 0 {
		security.RunAsUser = new(nobody)
	}
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

func podUser(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.RunAsUser
}
