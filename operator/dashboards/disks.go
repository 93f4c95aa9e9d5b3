// SPDX-License-Identifier: Apache-2.0

package dashboards

var disks = board{"disks", "disks", []panel{
	{
		title: "Disks by member", kind: stateTimeline, unit: number, alerts: []string{"PeerCacheDiskOff"},
		about: "Up or down, for each drive of each member. Pages on a drive that is off are misses until it works again.",
		queries: []query{
			{`min by (node, peercache_io_group, path) (peercache_disk_up{%s})`, "{{node}} {{peercache_io_group}} {{path}}"}},
	},
	{
		title: "Used", kind: timeSeries, unit: share,
		about: "Used share of the drives of each member. Full drives are normal: the oldest pages make room.",
		queries: []query{
			{`sum by (node, peercache_io_group) (peercache_disk_used_bytes{%s})` +
				` / sum by (node, peercache_io_group) (peercache_disk_capacity_bytes{%s})`, "{{node}} {{peercache_io_group}}"}},
	},
	{
		title: "Bytes read and written", kind: timeSeries, unit: sizePerSecond,
		about: "Bytes per second of all drives. If much more is written than read, drives wear for few hits: set a write budget.",
		queries: []query{
			{`sum (rate(peercache_disk_read_bytes_total{%s}[5m]))`, "read"},
			{`sum (rate(peercache_disk_written_bytes_total{%s}[5m]))`, "written"}},
	},
	{
		title: "Bytes written by member and disk", kind: heatmap, unit: sizePerSecond,
		about: "A row for each drive.",
		queries: []query{
			{`sum by (node, peercache_io_group, path) (rate(peercache_disk_written_bytes_total{%s}[5m]))`, "{{node}} {{peercache_io_group}} {{path}}"}},
	},
	{
		title: "Pages written, promoted and dropped", kind: timeSeries, unit: perSecond, alerts: []string{"PeerCacheDiskDropsPages"},
		about: "Pages per second that go to drives, come back, or are dropped on their way. If more are dropped than written, drives are too slow.",
		queries: []query{
			{`sum (rate(peercache_disk_written_pages_total{%s}[5m]))`, "written"},
			{`sum (rate(peercache_disk_promoted_pages_total{%s}[5m]))`, "promoted into memory"},
			{`sum (rate(peercache_disk_fetched_pages_total{%s}[5m]))`, "promoted for other members"},
			{`sum by (reason) (rate(peercache_disk_dropped_pages_total{%s}[5m]))`, "dropped: {{reason}}"}},
	},
	{
		title: "Write budget left, of a day's", kind: timeSeries, unit: share, marks: below(1.0 / 96), alerts: []string{"PeerCacheDiskBudgetSpent"},
		about: "Share of the daily budget that a member may still write. Near 0 it skips most new pages. No data without a budget.",
		queries: []query{
			{`peercache_disk_budget_left_bytes{%s} / (peercache_disk_budget_bytes_a_day{%s} > 0)`, "{{node}} {{peercache_io_group}}"}},
	},
	{
		title: "Drive writes a day", kind: timeSeries, unit: number, marks: above(1), alerts: []string{"PeerCacheDiskWears"},
		about: "How often a member writes its part of a drive within a day. Compare it with the endurance of the drive (DWPD).",
		queries: []query{
			{`increase(peercache_disk_written_bytes_total{%s}[1d]) / (peercache_disk_capacity_bytes{%s} > 0)`, "{{node}} {{path}}"}},
	},
	{
		title: "Bytes written for each byte of a page", kind: timeSeries, unit: number,
		about: "Write amplification of the format: 1 is none.",
		queries: []query{
			{`sum (rate(peercache_disk_written_bytes_total{%s}[1h])) / sum (rate(peercache_disk_page_bytes_total{%s}[1h]))`, "written"}},
	},
	{
		title: "Pages on disk", kind: timeSeries, unit: number,
		about:   "Pages on the drives of each member.",
		queries: []query{{`sum by (node) (peercache_disk_pages{%s})`, "{{node}}"}},
	},
	{
		title: "Pages that wait to be written", kind: timeSeries, unit: number,
		about:   "Pages that the pool has evicted and that no drive has yet. If it stays high, drives are too slow.",
		queries: []query{{`sum by (node) (peercache_disk_waiting_pages{%s})`, "{{node}}"}},
	},
	{
		title: "Reads that brought no page", kind: timeSeries, unit: perSecond,
		about: "Reads of drives per second without a hit, by outcome. No data is good.",
		queries: []query{
			{`sum by (outcome) (rate(peercache_disk_reads_total{%s,outcome!="hit"}[5m])) > 0`, "{{outcome}}"}},
	},
	{
		title: "Errors, and disks that recover", kind: timeSeries, unit: number,
		about: "Errors of a drive within five minutes, drives that take no writes, and members that still read their drives after a start.",
		queries: []query{
			{`sum by (node, path) (increase(peercache_disk_errors_total{%s}[5m])) > 0`, "{{node}} {{path}} errors"},
			{`max by (node, path) (peercache_disk_writes_paused{%s}) > 0`, "{{node}} {{path}} writes paused"},
			{`count by (node) (peercache_disk_recovered{%s} == 0)`, "{{node}} recovering"}},
	},
	{
		title: "Reads, writes and syncs of disks, 99th percentile", kind: timeSeries, unit: seconds, marks: above(1),
		about: "Time of one operation. A read or write of more than 1 s switches the drive off.",
		queries: []query{
			{`histogram_quantile(0.99, sum by (node, path, op, le) (rate(peercache_disk_io_latency_seconds_bucket{%s}[5m])))`,
				"{{node}} {{path}} {{op}}"}},
	},
	{
		title: "Recovery of disks", kind: timeSeries, unit: share,
		about: "Share of a drive that its member has read since it started. Pages of the rest are misses until then.",
		queries: []query{
			{`peercache_disk_recovery_regions_read{%s} / (peercache_disk_recovery_regions{%s} > 0)`, "{{node}} {{path}}"}},
	},
}}
