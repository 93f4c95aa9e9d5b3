// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// claims returns the group's ResourceClaims: one per rail, and one for all rails that name requests of the same template. A
// container lists a claim once, and gets the devices of all its requests.
func (g Group) claims() ([]corev1.PodResourceClaim, []corev1.ResourceClaim) {
	var ofPod []corev1.PodResourceClaim
	var ofContainer []corev1.ResourceClaim
	shared := map[string]bool{}
	for _, rail := range g.railsWith(v1alpha1.AttachmentDRA) {
		claim := rail.Claim()
		if claim.Request != "" {
			if shared[claim.ResourceClaimTemplate] {
				continue
			}
			shared[claim.ResourceClaimTemplate] = true
		}
		// A shared claim has the name of its first rail, which is unique and a valid DNS label.
		ofPod = append(ofPod, corev1.PodResourceClaim{
			Name: rail.Name, ResourceClaimTemplateName: new(claim.ResourceClaimTemplate),
		})
		ofContainer = append(ofContainer, corev1.ResourceClaim{Name: rail.Name})
	}
	return ofPod, ofContainer
}
