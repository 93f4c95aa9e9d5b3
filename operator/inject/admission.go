// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/operator/inject/reasons"
)

// +kubebuilder:rbac:groups="",resources=limitranges;resourcequotas,verbs=get;list;watch

const (
	// PodSecurityLabel has the level of Pod Security that a namespace enforces. The API server reads values that it does not know as
	// restricted.
	PodSecurityLabel = "pod-security.kubernetes.io/enforce"
	// PodSecurityPrivileged is the level that forbids nothing.
	PodSecurityPrivileged = "privileged"
)

// Admission is what the API server compares a pod with, beyond what is in it. It is of the pod's namespace.
type Admission struct {
	// Namespace is its name, labels and annotations. It is empty where they are not known.
	Namespace metav1.ObjectMeta
	// Limits are the items of its LimitRanges.
	Limits []corev1.LimitRangeItem
	// Quotas are its ResourceQuotas.
	Quotas []corev1.ResourceQuota
}

// gatherAdmission reads what a namespace admits. A caller without a right, such as a user of kubectl, assumes that there is nothing
// to compare with.
func gatherAdmission(ctx context.Context, reader, namespaces client.Reader, namespace string) (Admission, error) {
	var a Admission
	var err error
	if a.Limits, err = Limits(ctx, reader, namespace); err != nil {
		return a, err
	}
	object := namespaceObject()
	if err := namespaces.Get(ctx, client.ObjectKey{Name: namespace}, object); unexpected(err) {
		return a, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	a.Namespace = object.ObjectMeta
	list := &corev1.ResourceQuotaList{}
	if err := reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); unexpected(err) {
		return a, fmt.Errorf("reading ResourceQuotas of namespace %s: %w", namespace, err)
	}
	a.Quotas = list.Items
	return a, nil
}

// Limits are the items of a namespace's LimitRanges.
func Limits(ctx context.Context, reader client.Reader, namespace string) ([]corev1.LimitRangeItem, error) {
	list := &corev1.LimitRangeList{}
	if err := reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); unexpected(err) {
		return nil, fmt.Errorf("reading LimitRanges of namespace %s: %w", namespace, err)
	}
	var items []corev1.LimitRangeItem
	for _, object := range list.Items {
		items = append(items, object.Spec.Limits...)
	}
	return items, nil
}

func unexpected(err error) bool {
	return err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err)
}

// Restricted is what keeps privileges from pods of the namespace, or "": Pod Security, or OpenShift's constraints. Which constraints
// apply depends on the pod's service account. So the label of Pod Security says of a namespace there that it admits privileges.
func (a Admission) Restricted() string {
	level, enforced := a.Namespace.Labels[PodSecurityLabel]
	switch _, openShift := a.firstUser(); {
	case level == PodSecurityPrivileged:
		return ""
	case enforced:
		return reasons.PodSecurity(level)
	case openShift:
		return reasons.Constraints()
	default:
		return ""
	}
}

// Users is the annotation with the users that OpenShift gives the pods of a namespace, such as 1000680000/10000. FirstUser finds the
// first of them, which pods get that choose none.
const (
	Users     = "openshift.io/sa.scc.uid-range"
	FirstUser = "^[0-9]{1,10}"
)

var firstUser = regexp.MustCompile(FirstUser)

// firstUser is the user that added containers need on OpenShift.
func (a Admission) firstUser() (user int64, given bool) {
	user, err := strconv.ParseInt(firstUser.FindString(a.Namespace.Annotations[Users]), 10, 64)
	return user, err == nil
}

// user is the user of added containers where the pod chooses none, or root.
func (a Admission) user() int64 {
	if user, given := a.firstUser(); given {
		return user
	}
	return NonRootUser
}

// raise makes an added container, whose requests are its limits, as large as the LimitRanges want at least. It makes it as small as
// they want at most where the container can do with less.
func (a Admission) raise(c *corev1.Container, shrinks bool) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		need := c.Resources.Requests[name]
		for _, item := range a.Limits {
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			if least, ok := item.Min[name]; ok && need.Cmp(least) < 0 {
				need = least
			}
			if most, ok := item.Max[name]; ok && shrinks && need.Cmp(most) > 0 {
				need = most
			}
		}
		c.Resources.Requests[name], c.Resources.Limits[name] = need.DeepCopy(), need.DeepCopy()
	}
}
