// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strconv"

	"github.com/peercache/peercache/api/v1alpha1"
)

const (
	recordsOption = "max-directory-records"

	// directoryRecord is what a record takes at most: 72 bytes, and up to 22 of the index (directory/record_table.h).
	directoryRecord = 94
	// defaultRecords is the default of recordsOption.
	defaultRecords = 16 << 20
)

// diskRecords is how many records of pages on drives a node's shard of the directory has. The ring gives each node the same
// share of all keys, also a node without drives. So this is the mean over all nodes, and at most what the largest of them have.
func diskRecords(spec v1alpha1.PeerCacheClusterSpec) int64 {
	var most int64
	for _, group := range Groups(spec) {
		if disk := group.disk(spec); disk != nil {
			most = max(most, group.drives(spec)*(disk.Size.Value()/meanPage))
		}
	}
	return most
}

// directorySettings gives shards room for the pages on drives, unless extraConfig says how much they have. A shard keeps an
// eighth of its room for pages in memory, and a hash does not spread keys evenly.
func directorySettings(spec v1alpha1.PeerCacheClusterSpec) []Setting {
	records := diskRecords(spec) / 7 * 10
	if _, set := spec.ExtraConfig[recordsOption]; set || records <= defaultRecords {
		return nil
	}
	return []Setting{{Name: recordsOption, Value: strconv.FormatInt(records, 10)}}
}

// directoryMemory is what a node needs for records of pages on drives. Those of pages in memory are in the
// index of the pool.
func directoryMemory(spec v1alpha1.PeerCacheClusterSpec) int64 {
	records := diskRecords(spec)
	if limit, err := strconv.ParseInt(spec.ExtraConfig[recordsOption], 10, 64); err == nil {
		records = min(records, limit)
	}
	return wholeMebibytes(records * directoryRecord)
}
