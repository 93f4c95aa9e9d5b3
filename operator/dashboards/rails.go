// SPDX-License-Identifier: Apache-2.0

package dashboards

var rails = board{"rails", "rails", []panel{
	{
		title: "Rails by member", kind: stateTimeline, unit: number, alerts: []string{"PeerCacheRailDown"},
		about: "Up or down, for each rail of each member. Reads of a rail that is down use the member's other rails, or TCP.",
		queries: []query{
			{`min by (node, peercache_io_group, rail) (peercache_rail_up{%s})`, "{{node}} {{peercache_io_group}} {{rail}}"}},
	},
	{
		title: "What rails wait for", kind: timeSeries, unit: number,
		about:   "A line for each rail that is down, with what it waits for. No data is good.",
		queries: []query{{`peercache_rail_waits{%s} == 1`, "{{node}} {{rail}}: {{for}}"}},
	},
	{
		title: "Pages of other members that come over TCP", kind: timeSeries, unit: share, marks: above(0.05), alerts: []string{"PeerCacheReadsOverTCP"},
		about: "Share of the pages from other members. Above 5 % on a member with rails, its rails or its peers' are down.",
		queries: []query{
			{`sum by (node, peercache_io_group) (rate(peercache_delivered_pages_total{%s,tier="tcp"}[5m]))` +
				` / sum by (node, peercache_io_group) (rate(peercache_delivered_pages_total{%s,tier=~"tcp|rdma"}[5m]))`,
				"{{node}} {{peercache_io_group}}"}},
	},
	{
		title: "Rails up", kind: timeSeries, unit: number,
		about:   "Members whose rail of each name is up. A step down of all rails at once is a switch.",
		queries: []query{{`sum by (rail) (peercache_rail_up{%s})`, "{{rail}}"}},
	},
	{
		title: "Bytes read by rail", kind: heatmap, unit: sizePerSecond,
		about:   "A row for each rail. Rails of one fabric carry about the same; a dark row among bright ones is not used.",
		queries: []query{{`sum by (rail) (rate(peercache_rail_read_bytes_total{%s}[5m]))`, "{{rail}}"}},
	},
	{
		title: "Bytes read by member and rail", kind: heatmap, unit: sizePerSecond,
		about:   "A row for each rail of each member. Compare it with the line rate of the port.",
		queries: []query{{`sum by (node, rail) (rate(peercache_rail_read_bytes_total{%s}[5m]))`, "{{node}} {{rail}}"}},
	},
	{
		title: "Bytes of a READ, mean", kind: timeSeries, unit: size,
		about: "Size of one RDMA READ. Small READs do not fill a fast port: raise the page size of the engine.",
		queries: []query{
			{`sum by (rail) (rate(peercache_rail_read_bytes_total{%s}[5m])) / sum by (rail) (rate(peercache_rail_reads_total{%s}[5m]))`,
				"{{rail}}"}},
	},
	{
		title: "Queue pairs that failed", kind: timeSeries, unit: perSecond,
		about: "Queue pairs per second that ended with an error, by rail. No data is good. A peer that restarts makes a few.",
		queries: []query{
			{`sum by (node, rail) (rate(peercache_rail_queue_pair_failures_total{%s}[5m])) > 0`, "{{node}} {{rail}}"}},
	},
	{
		title: "Ports that went down, devices that failed, addresses that changed", kind: timeSeries, unit: number,
		about: "Changes of rails within five minutes. No data is good.",
		queries: []query{
			{`sum by (node, rail) (increase(peercache_rail_downs_total{%s}[5m])) > 0`, "{{node}} {{rail}} went down"},
			{`sum by (node, rail) (increase(peercache_rail_device_failures_total{%s}[5m])) > 0`, "{{node}} {{rail}} device failed"},
			{`sum by (node, rail) (increase(peercache_rail_address_changes_total{%s}[5m])) > 0`, "{{node}} {{rail}} address changed"}},
	},
	{
		title: "RDMA links to peers by result", kind: timeSeries, unit: perSecond,
		about: "Attempts to connect a pair of members by RDMA. While a result other than success recurs, pages of that pair use TCP.",
		queries: []query{
			{`sum by (result) (rate(peercache_rdma_link_attempts_total{%s}[5m]))`, "{{result}}"},
			{`sum (rate(peercache_rdma_refused_readers_total{%s}[5m]))`, "readers refused"}},
	},
	{
		title: "Queue pairs", kind: timeSeries, unit: number,
		about:   "Queue pairs in use, by side: those that read, and those that peers read by. They grow with the number of members.",
		queries: []query{{`sum by (side) (peercache_rdma_queue_pairs{%s})`, "{{side}}"}},
	},
	{
		title: "Members far from their rails", kind: timeSeries, unit: number, alerts: []string{"PeerCacheNUMAMisplaced"},
		about: "A line for each member whose threads or memory are not on the NUMA node of its rails. No data is good.",
		queries: []query{
			{`peercache_numa_cpus{%s} == 0 and peercache_numa_node{%s} >= 0`, "{{node}} {{peercache_io_group}} threads"},
			{`sum by (node, peercache_io_group) (peercache_numa_pool_sampled_pages{%s,place="elsewhere"}) > 0`,
				"{{node}} {{peercache_io_group}} memory"}},
	},
}}
