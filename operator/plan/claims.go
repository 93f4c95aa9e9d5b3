// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// claims are the group's ResourceClaims: one per rail, except that rails which name requests of one template
// share a claim. A container lists a claim once and thereby gets the devices of all its requests.
func (g Group) claims() ([]corev1.PodResourceClaim, []corev1.ResourceClaim) {
	var ofPod []corev1.PodResourceClaim
	var ofContainer []corev1.ResourceClaim
	shared := map[string]bool{}
	for _, rail := range g.railsWith(v1alpha1.AttachmentDRA) {
		if rail.Request != "" {
			if shared[rail.ResourceClaimTemplate] {
				continue
			}
			shared[rail.ResourceClaimTemplate] = true
		}
		// The first rail of a shared claim lends its name: it is unique, and valid as a DNS label.
		ofPod = append(ofPod, corev1.PodResourceClaim{
			Name: rail.Name, ResourceClaimTemplateName: new(rail.ResourceClaimTemplate),
		})
		ofContainer = append(ofContainer, corev1.ResourceClaim{Name: rail.Name})
	}
	return ofPod, ofContainer
}
