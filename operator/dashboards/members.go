// SPDX-License-Identifier: Apache-2.0

package dashboards

var members = board{"members", "members and groups", []panel{
	{
		title: "Not ready", kind: timeSeries, unit: number, alerts: []string{"PeerCacheNodeDown", "PeerCacheNodeNotReady"},
		about: "A line for each member that Prometheus cannot scrape or that serves no engine. No data is good. Pages of such a member are misses.",
		queries: []query{
			{`peercache_ready{%s} == 0`, "{{node}} {{peercache_io_group}} not ready"},
			{`up{%s} == 0`, "{{node}} {{peercache_io_group}} not scraped"}},
	},
	{
		title: "Pool used", kind: timeSeries, unit: share,
		about: "Used share of each member's pool. Members that differ much serve engines with different traffic.",
		queries: []query{
			{`sum by (node, peercache_io_group) (peercache_pool_bytes{%s,state="used"})` +
				` / sum by (node, peercache_io_group) (peercache_pool_capacity_bytes{%s})`, "{{node}} {{peercache_io_group}}"}},
	},
	{
		title: "Bytes sent to other members", kind: heatmap, unit: sizePerSecond,
		about: "A row for each member. One bright row is a hot member: many engines read pages that it alone holds.",
		queries: []query{
			{`sum by (node, peercache_io_group) (rate(peercache_served_bytes_total{%s}[5m]))`, "{{node}} {{peercache_io_group}}"}},
	},
	{
		title: "Bytes received from other members", kind: heatmap, unit: sizePerSecond,
		about: "A row for each member. A bright row is a member whose engines find their pages elsewhere.",
		queries: []query{
			{`sum by (node, peercache_io_group) (rate(peercache_read_bytes_total{%s,tier="remote"}[5m]))`,
				"{{node}} {{peercache_io_group}}"}},
	},
	{
		title: "Bytes sent by group", kind: timeSeries, unit: sizePerSecond,
		about:   "Bytes per second that the members of each group send. Groups are those of spec.rails.",
		queries: []query{{`sum by (peercache_io_group) (rate(peercache_served_bytes_total{%s}[5m]))`, "{{peercache_io_group}}"}},
	},
	{
		title: "Failed exchanges with peers", kind: timeSeries, unit: perSecond,
		about:   "How often a member gives up on a peer for a while. A member that all others give up on hangs, or its network does.",
		queries: []query{{`sum by (node) (rate(peercache_breaker_trips_total{%s}[5m]))`, "{{node}}"}},
	},
	{
		title: "Directory used", kind: timeSeries, unit: share, marks: above(0.9), alerts: []string{"PeerCacheDirectoryNearlyFull"},
		about: "Records in each member's part of the directory, as a share of max-directory-records. At 100 %, new pages are not found by other members.",
		queries: []query{
			{`peercache_directory_records{%s} / peercache_directory_records_limit{%s}`, "{{node}} {{peercache_io_group}}"}},
	},
	{
		title: "Certificates: time left", kind: timeSeries, unit: seconds, marks: below(3 * 86400), alerts: []string{"PeerCacheCertificateExpires"},
		about: "Time until each member's TLS certificate expires. Other members refuse an expired one. No data without TLS.",
		queries: []query{
			{`(peercache_tls_certificate_expiry_timestamp_seconds{%s} > 0) - time()`, "{{node}} {{peercache_io_group}}"}},
	},
	{
		title: "Refused connections of peers", kind: timeSeries, unit: perSecond, alerts: []string{"PeerCachePeersRejected"},
		about: "Connections per second that are no member's: a scanner, another cluster's member, or a wrong token.",
		queries: []query{
			{`sum by (node) (rate(peercache_peer_bad_frames_total{%s}[5m])) > 0`, "{{node}} bad frames"},
			{`sum by (node) (rate(peercache_peer_failed_hellos_total{%s}[5m])) > 0`, "{{node}} failed hellos"}},
	},
}}
