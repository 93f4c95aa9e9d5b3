// SPDX-License-Identifier: Apache-2.0

package dashboards

var cluster = board{"cluster", "cluster", []panel{
	{
		title: "Hit ratio", kind: timeSeries, unit: share, alerts: []string{"PeerCacheHitRatioFell"},
		about: "Share of the pages that engines look up and get, in all and by tier. If it falls while evictions grow, the pool is too small.",
		queries: []query{
			{`sum (rate(peercache_delivered_pages_total{%s}[5m])) / sum (rate(peercache_lookup_pages_total{%s}[5m]))`, "all"},
			{`sum by (tier) (rate(peercache_delivered_pages_total{%s}[5m]))` +
				` / ignoring(tier) group_left sum (rate(peercache_lookup_pages_total{%s}[5m]))`, "{{tier}}"}},
	},
	{
		title: "Tokens looked up, found, delivered", kind: timeSeries, unit: perSecond,
		about: "Tokens of KV cache per second. Delivered tokens are those that engines need not compute. A gap between looked up and " +
			"found is missing capacity; one between found and delivered is a fault or a slow path.",
		queries: []query{
			{`sum (rate(peercache_lookup_tokens_total{%s}[5m]))`, "looked up"},
			{`sum (rate(peercache_lookup_found_tokens_total{%s}[5m]))`, "found"},
			{`sum by (tier) (rate(peercache_delivered_tokens_total{%s}[5m]))`, "delivered: {{tier}}"}},
	},
	{
		title: "Bytes read by engines", kind: timeSeries, unit: sizePerSecond,
		about:   "Bytes per second that engines get, by the tier they come from: own memory, other members, drives.",
		queries: []query{{`sum by (tier) (rate(peercache_read_bytes_total{%s}[5m]))`, "{{tier}}"}},
	},
	{
		title: "Bytes stored", kind: timeSeries, unit: sizePerSecond,
		about:   "Bytes per second that engines store. The size of the pool divided by it is about the time until a page is evicted.",
		queries: []query{{`sum (rate(peercache_write_bytes_total{%s}[5m]))`, "written"}},
	},
	{
		title: "Misses by reason", kind: timeSeries, unit: perSecond, alerts: []string{"PeerCacheChecksumMismatch"},
		about: "Pages per second that a read did not bring. absent is normal: no member has the page. checksum means that memory or a " +
			"network card corrupts data.",
		queries: []query{{`sum by (reason) (rate(peercache_read_misses_total{%s}[5m]))`, "{{reason}}"}},
	},
	{
		title: "Faults of reads and writes", kind: timeSeries, unit: share, marks: above(0.01),
		alerts: []string{"PeerCacheReadFaults", "PeerCacheWritesRefused"},
		about: "Share of reads that miss pages which may exist, and of writes that members refuse. Above 1 %, see the panels of misses " +
			"and of refused pages for the reason.",
		queries: []query{
			{`sum (rate(peercache_read_misses_total{%s,reason!~"absent|bypass|slower"}[5m])) / sum (rate(peercache_read_requests_total{%s}[5m]))`,
				"reads"},
			{`sum (rate(peercache_write_refused_total{%s,reason!="bypass"}[5m])) / sum (rate(peercache_write_requests_total{%s}[5m]))`,
				"writes"}},
	},
	{
		title: "Pool", kind: timeSeries, unit: size,
		about:   "Memory of all pools by state. A pool is meant to be full; free near 0 with many refused pages means that it is too small.",
		queries: []query{{`sum by (state) (peercache_pool_bytes{%s})`, "{{state}}"}},
	},
	{
		title: "Evictions and refused pages", kind: timeSeries, unit: perSecond, alerts: []string{"PeerCacheWritesRefused"},
		about: "Pages per second that leave the pool, and pages that members do not store, by reason.",
		queries: []query{
			{`sum by (reason) (rate(peercache_evictions_total{%s}[5m]))`, "evicted: {{reason}}"},
			{`sum by (reason) (rate(peercache_write_refused_total{%s}[5m]))`, "refused: {{reason}}"}},
	},
	{
		title: "Members, as members see them", kind: timeSeries, unit: number,
		alerts: []string{"PeerCacheMembersDisagree", "PeerCacheMemberUnreachable"},
		about:  "The longest and the shortest list of members, and members that send heartbeats but give no answers. The first two must be equal.",
		queries: []query{
			{`max (peercache_members{%s})`, "most"}, {`min (peercache_members{%s})`, "fewest"},
			{`max (peercache_members_unreachable{%s})`, "unreachable"}},
	},
	{
		title: "Breakers and repair", kind: timeSeries, unit: number, marks: above(1), alerts: []string{"PeerCacheRepairBacklog"},
		about: "Connections between members that are cut off because the peer did not answer, and pages whose records are not at their home yet. " +
			"Both return to 0 within minutes after a change of members.",
		queries: []query{
			{`sum by (state) (peercache_breakers{%s,state!="closed"})`, "breakers {{state}}"},
			{`sum (peercache_repair_backlog_pages{%s})`, "pages to repair"}},
	},
}}
