// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	// ComponentPoolFile is the component of the pods that remove the files of pools.
	ComponentPoolFile = "pool-file"

	// Both pods may be told to end at the same time. The node then has shutdownSeconds to let go of its file, and the garbage
	// collector may come to its pod later.
	poolLockSeconds    = "60"
	poolRemovalSeconds = 90

	// removePool removes the files of pools in a folder, unless a node serves from them: that has the lock
	// (dataplane/src/base/memory_file.h), after which flock ends with 75. What it says when it fails is in an event of the pod.
	removePool = `status=0
for file in "$1"/*.pool; do
  [ -e "$file" ] || continue
  flock -E 75 -w "$2" "$file" rm -- "$file" && continue
  [ $? = 75 ] || { echo "$file cannot be removed"; status=1; }
done
exit $status
`

	// awaitEnd is what the pod runs. The kubelet calls removePool before it sends SIGTERM: a shell that had to do that itself
	// would not hear a signal that comes before it has said so, and the file would stay.
	awaitEnd = `trap 'exit 0' TERM
sleep infinity &
wait
`
)

// buildPoolRemoval runs a pod beside each of the group's nodes that removes the file of spec.memory.hostPath when it ends; nil
// where the file ends with the node's pod. So the memory comes back when the cluster is deleted, by whatever way and with or
// without an operator, and when a machine leaves it. The pods stay when nodes are replaced, and on drained machines.
//
// The name is a digest of what must not change in the life of a DaemonSet: where the file is, and who may remove it. With
// another folder there are two for a while. The former ends when no node uses its folder any more (package apply).
func (g Group) buildPoolRemoval(cluster *v1alpha1.PeerCacheCluster, node corev1.PodSpec, image string) *appsv1.DaemonSet {
	spec := cluster.Spec
	memory := g.Memory(spec)
	if memory.HostPath == "" {
		return nil
	}
	which := digest([]byte(strings.Join([]string{memory.HostPath, g.FullName(), g.owner(spec)}, "\n")))
	meta := componentMeta(cluster, DaemonSetName(cluster.Name, g)+"-pool-"+which, ComponentPoolFile)
	selector := map[string]string{
		v1alpha1.LabelCluster: cluster.Name, LabelComponent: ComponentPoolFile, v1alpha1.LabelPoolFile: which,
	}
	labels := maps.Clone(meta.Labels)
	maps.Copy(labels, selector)
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       g.poolRemovalPod(cluster, node, image),
	}
	keepOutOfMeshes(&template.ObjectMeta)
	all := intstr.FromString("100%")
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: meta,
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &all, MaxSurge: new(intstr.FromInt32(0))},
			},
			RevisionHistoryLimit: new(int32(1)),
			Template:             template,
		},
	}
}

// poolRemovalPod runs on the machines of a node's pod, as its user. The limits make it Guaranteed, as the node is.
func (g Group) poolRemovalPod(cluster *v1alpha1.PeerCacheCluster, node corev1.PodSpec, image string) corev1.PodSpec {
	little := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
	}
	security := restrictedSecurityContext()
	security.RunAsUser, security.RunAsGroup = new(g.user(cluster.Spec)), new(g.user(cluster.Spec))
	pod := corev1.PodSpec{
		ServiceAccountName:            node.ServiceAccountName,
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		NodeSelector:                  node.NodeSelector,
		Tolerations:                   node.Tolerations,
		PriorityClassName:             node.PriorityClassName,
		ImagePullSecrets:              node.ImagePullSecrets,
		TerminationGracePeriodSeconds: new(int64(poolRemovalSeconds)),
		Containers: []corev1.Container{{
			Name:            ComponentPoolFile,
			Image:           image,
			ImagePullPolicy: cluster.Spec.ImagePullPolicy,
			Command:         []string{"sh", "-c", awaitEnd},
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
				Command: []string{"sh", "-c", removePool, "sh", poolDir, poolLockSeconds},
			}}},
			Resources:       corev1.ResourceRequirements{Requests: little, Limits: little.DeepCopy()},
			VolumeMounts:    []corev1.VolumeMount{g.poolMount(cluster)},
			SecurityContext: security,
		}},
		Volumes: []corev1.Volume{g.poolVolume(cluster.Spec)},
	}
	if node.Affinity != nil && node.Affinity.NodeAffinity != nil {
		pod.Affinity = &corev1.Affinity{NodeAffinity: node.Affinity.NodeAffinity.DeepCopy()}
	}
	return pod
}
