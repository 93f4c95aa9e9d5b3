// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// UnconfirmedLoss is the problem of a plan that has no place for pages that members serve; nil when there is none. The DaemonSets
// of groups that go would be deleted at once, and every page with them, whatever made the groups go: another layout, the first
// nodePools, another name of a group or a pool. Of folders that go from spec.disk.hostPath, no member would serve the pages. With
// another sharing, all pages have other keys. The annotation confirm-loss confirms it by naming what goes, so that it confirms no
// later change of others.
func (d *Desired) UnconfirmedLoss(cluster *v1alpha1.PeerCacheCluster, live map[string]*appsv1.DaemonSet) *Problem {
	stay := map[string]*appsv1.DaemonSet{}
	for _, daemonSet := range d.DaemonSets {
		stay[daemonSet.Name] = daemonSet
	}
	var lost []string
	var members int32
	sharing := "sharing=" + string(v1alpha1.SharingCluster)
	if Isolated(cluster.Spec.Sharing) {
		sharing = "sharing=" + string(v1alpha1.SharingNamespace)
	}
	for _, name := range slices.Sorted(maps.Keys(live)) {
		ready := live[name].Status.NumberReady
		if ready == 0 {
			continue
		}
		group := strings.TrimPrefix(name, cluster.Name+"-")
		if stay[name] == nil {
			lost = append(lost, group)
			members += ready
		} else if hasTenants(live[name]) != hasTenants(stay[name]) {
			if !slices.Contains(lost, sharing) {
				lost = append(lost, sharing)
			}
			members += ready
		} else if folders := foldersWithout(live[name], stay[name]); len(folders) > 0 {
			for _, folder := range folders {
				lost = append(lost, group+":"+folder)
			}
			members += ready
		}
	}
	confirmed := strings.Split(cluster.Annotations[v1alpha1.AnnotationConfirmLoss], ",")
	if !slices.ContainsFunc(lost, func(what string) bool { return !slices.Contains(confirmed, what) }) {
		return nil
	}
	names := strings.Join(lost, ",")
	return &Problem{Reason: "LossNotConfirmed", Message: fmt.Sprintf("this change removes groups or disk folders in use, or changes "+
		"sharing (%s); %d members would lose their pages there: undo the change, or confirm the loss: kubectl annotate pcc -n %s %s %s=%s --overwrite",
		names, members, cluster.Namespace, cluster.Name, v1alpha1.AnnotationConfirmLoss, names)}
}

// foldersWithout returns the folders of drives that the nodes of one DaemonSet have and those of another lack.
func foldersWithout(these, those *appsv1.DaemonSet) []string {
	others := diskFolders(those)
	return slices.DeleteFunc(diskFolders(these), func(folder string) bool { return slices.Contains(others, folder) })
}
