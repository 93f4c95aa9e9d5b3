// SPDX-License-Identifier: Apache-2.0

//go:build promtool

package plan

// ruleCase is one history of metrics, and the expected state of one alert at its end. In series, @ stands for the labels of the
// cluster and node for those of a node. Values are in the notation of promtool, from minute 0 on.
type ruleCase struct {
	alert  string
	series [][2]string
	at     string // when the alert is evaluated
	every  string // time between values, "" for a minute
	// says is the description of the firing alert. If it is empty, the alert must not fire.
	says string
	// labels are the labels of the firing alert, besides those of the cluster, the severity and, with onNode, the node.
	labels map[string]string
	onNode bool
}

var ruleCases = []ruleCase{
	{alert: "PeerCacheNodeDown", series: [][2]string{{`up{@,node}`, "1 1 0x20"}}, at: "8m", onNode: true,
		says: "Member demo-1 on node gpu-1 has not answered Prometheus for five minutes. Its pages are misses."},
	{alert: "PeerCacheNodeDown", series: [][2]string{{`up{@,node}`, "0x4 1 0x4"}}, at: "9m"},

	{alert: "PeerCacheNodeNotReady", series: [][2]string{{`peercache_ready{@,node}`, "0x20"}}, at: "6m", onNode: true,
		says: "Member demo-1 on node gpu-1 runs but serves no engine."},
	{alert: "PeerCacheNodeNotReady", series: [][2]string{{`peercache_ready{@,node}`, "0x3 1x20"}}, at: "10m"},

	{alert: "PeerCacheSlowerThanCompute", at: "40m", onNode: true,
		series: [][2]string{{`peercache_slower_pages_total{@,node}`, "0+60x60"}, {`peercache_exists_pages_found_total{@,node}`, "0+180x60"},
			{`peercache_slower_pages_total{@,pod="well"}`, "0+1x60"}, {`peercache_exists_pages_found_total{@,pod="well"}`, "0+180x60"},
			{`peercache_slower_pages_total{@,pod="idle"}`, "0x60"}, {`peercache_exists_pages_found_total{@,pod="idle"}`, "0x60"}},
		says: "25% of the pages that member demo-1 on node gpu-1 found for its engines are skipped, because a slow network or drive " +
			"would take longer than computing them."},
	// A link that was slow for a moment.
	{alert: "PeerCacheSlowerThanCompute", at: "60m",
		series: [][2]string{{`peercache_slower_pages_total{@,node}`, "0+60x5 300x60"}, {`peercache_exists_pages_found_total{@,node}`, "0+180x60"}}},

	{alert: "PeerCacheMembersDisagree", at: "10m",
		series: [][2]string{{`peercache_members{@,pod="a"}`, "5x20"}, {`peercache_members{@,pod="b"}`, "3x20"}},
		says:   "Some members of inference/demo see 2 members fewer than others."},
	{alert: "PeerCacheMembersDisagree", at: "10m",
		series: [][2]string{{`peercache_members{@,pod="a"}`, "5x20"}, {`peercache_members{@,pod="b"}`, "3x2 5x20"},
			{`peercache_members{namespace="other",peercache_io_cluster="demo",pod="c"}`, "1x20"}}},

	{alert: "PeerCacheMemberUnreachable", at: "10m",
		series: [][2]string{{`peercache_members_unreachable{@,pod="a"}`, "0x20"}, {`peercache_members_unreachable{@,pod="b"}`, "2x20"}},
		says:   "2 members of inference/demo send heartbeats but give no answers; they are in no ring."},
	{alert: "PeerCacheMemberUnreachable", at: "10m", series: [][2]string{{`peercache_members_unreachable{@,pod="a"}`, "2 2 0x20"}}},

	{alert: "PeerCacheRailDown", at: "6m", onNode: true, labels: map[string]string{"rail": "mlx5_3 port 1"},
		series: [][2]string{{`peercache_rail_up{@,node,rail="mlx5_3 port 1"}`, "0x20"}, {`peercache_rail_up{@,node,rail="mlx5_2 port 1"}`, "1x20"}},
		says:   "Rail mlx5_3 port 1 of member demo-1 on node gpu-1 is down; reads use its other rails, or TCP."},
	{alert: "PeerCacheRailDown", at: "20m", series: [][2]string{{`peercache_rail_up{@,node,rail="mlx5_3 port 1"}`, "1 0x3 1x20"}}},

	{alert: "PeerCacheReadsOverTCP", at: "30m", onNode: true,
		series: [][2]string{{`peercache_delivered_pages_total{@,node,tier="tcp"}`, "0+60x40"}, {`peercache_delivered_pages_total{@,node,tier="rdma"}`, "0+180x40"}},
		says:   "25% of the pages that member demo-1 on node gpu-1 gets from other members come over TCP, though it has rails."},
	// Its first reads, while links are made; another that reads from nobody.
	{alert: "PeerCacheReadsOverTCP", at: "30m",
		series: [][2]string{{`peercache_delivered_pages_total{@,node,tier="tcp"}`, "0+60x5 300x35"}, {`peercache_delivered_pages_total{@,node,tier="rdma"}`, "0+180x40"},
			{`peercache_delivered_pages_total{@,pod="idle",tier="tcp"}`, "0x40"}, {`peercache_delivered_pages_total{@,pod="idle",tier="rdma"}`, "0x40"}}},

	{alert: "PeerCacheDiskOff", at: "6m", onNode: true, labels: map[string]string{"path": "/d/disk1"},
		series: [][2]string{{`peercache_disk_up{@,node,path="/d/disk1"}`, "0x20"}, {`peercache_disk_up{@,node,path="/d/disk0"}`, "1x20"}},
		says:   "Drive /d/disk1 of member demo-1 on node gpu-1 is off; its pages are misses until it works again."},
	{alert: "PeerCacheDiskOff", at: "20m", series: [][2]string{{`peercache_disk_up{@,node,path="/d/disk1"}`, "1 0x3 1x20"}}},

	{alert: "PeerCacheDiskBudgetSpent", at: "70m", onNode: true,
		series: [][2]string{{`peercache_disk_budget_left_bytes{@,node}`, "-1x90"}, {`peercache_disk_budget_bytes_a_day{@,node}`, "96x90"}},
		says:   "Member demo-1 on node gpu-1 has had almost no write budget left for an hour; it skips most new pages."},
	// A node begins with an hour's share. One without a budget has none left.
	{alert: "PeerCacheDiskBudgetSpent", at: "70m",
		series: [][2]string{{`peercache_disk_budget_left_bytes{@,node}`, "4-0.05x60 1x30"}, {`peercache_disk_budget_bytes_a_day{@,node}`, "96x90"},
			{`peercache_disk_budget_left_bytes{@,pod="unlimited"}`, "0x90"}, {`peercache_disk_budget_bytes_a_day{@,pod="unlimited"}`, "0x90"}}},

	{alert: "PeerCacheDiskDropsPages", at: "40m", onNode: true,
		series: [][2]string{{`peercache_disk_dropped_pages_total{@,node,reason="overtaken"}`, "0+60x60"},
			{`peercache_disk_dropped_pages_total{@,node,reason="index"}`, "0+60x60"}, {`peercache_disk_written_pages_total{@,node}`, "0+90x60"}},
		says: "Member demo-1 on node gpu-1 drops 2 pages a second on their way to disk, more than it writes."},
	{alert: "PeerCacheDiskDropsPages", at: "40m",
		series: [][2]string{{`peercache_disk_dropped_pages_total{@,node,reason="overtaken"}`, "0+60x60"},
			{`peercache_disk_dropped_pages_total{@,node,reason="budget"}`, "0+600x60"},
			{`peercache_disk_dropped_pages_total{@,node,reason="cleared"}`, "0+600x60"}, {`peercache_disk_written_pages_total{@,node}`, "0+90x60"}}},

	// A drive is written twice a day; in the second case once in two, or within its budget, or it is off.
	{alert: "PeerCacheBypassed", at: "70m", onNode: true, series: [][2]string{{`peercache_bypassed{@,node}`, "1x90"}},
		says: "The cache is bypassed on member demo-1 on node gpu-1."},
	{alert: "PeerCacheBypassed", at: "50m", series: [][2]string{{`peercache_bypassed{@,node}`, "1x90"}}},

	{alert: "PeerCacheDiskWears", every: "10m", at: "1600m", onNode: true, labels: map[string]string{"path": "/d/disk0"},
		series: [][2]string{{`peercache_disk_written_bytes_total{@,node,path="/d/disk0"}`, "0+144x200"},
			{`peercache_disk_capacity_bytes{@,node,path="/d/disk0"}`, "10368x200"}},
		says: "Member demo-1 on node gpu-1 has written its part of drive /d/disk0 2 times within a day."},
	{alert: "PeerCacheDiskWears", every: "10m", at: "1600m",
		series: [][2]string{{`peercache_disk_written_bytes_total{@,node,path="/d/disk0"}`, "0+144x200"},
			{`peercache_disk_capacity_bytes{@,node,path="/d/disk0"}`, "41472x200"},
			{`peercache_disk_written_bytes_total{@,node,path="/d/disk1"}`, "0+144x200"},
			{`peercache_disk_capacity_bytes{@,node,path="/d/disk1"}`, "0x200"},
			{`peercache_disk_written_bytes_total{@,pod="budget",path="/d/disk0"}`, "0+144x200"},
			{`peercache_disk_capacity_bytes{@,pod="budget",path="/d/disk0"}`, "10368x200"},
			{`peercache_disk_budget_bytes_a_day{@,pod="budget"}`, "103680x200"}}},

	{alert: "PeerCacheNUMAMisplaced", at: "40m", onNode: true,
		series: [][2]string{{`peercache_numa_cpus{@,node}`, "0x60"}, {`peercache_numa_node{@,node}`, "1x60"}},
		says:   "Threads or memory of member demo-1 on node gpu-1 are not on the NUMA node of its rails; every read crosses the machine."},
	{alert: "PeerCacheNUMAMisplaced", at: "40m", onNode: true,
		series: [][2]string{{`peercache_numa_cpus{@,node}`, "8x60"}, {`peercache_numa_node{@,node}`, "0x60"},
			{`peercache_numa_pool_sampled_pages{@,node,place="node"}`, "60x60"}, {`peercache_numa_pool_sampled_pages{@,node,place="elsewhere"}`, "4x60"}},
		says: "Threads or memory of member demo-1 on node gpu-1 are not on the NUMA node of its rails; every read crosses the machine."},
	{alert: "PeerCacheNUMAMisplaced", at: "40m",
		series: [][2]string{{`peercache_numa_cpus{@,node}`, "8x60"}, {`peercache_numa_node{@,node}`, "1x60"},
			{`peercache_numa_pool_sampled_pages{@,node,place="node"}`, "64x60"}, {`peercache_numa_pool_sampled_pages{@,node,place="elsewhere"}`, "0x60"},
			{`peercache_numa_cpus{@,pod="no-rails"}`, "0x60"}, {`peercache_numa_node{@,pod="no-rails"}`, "-1x60"}}},

	{alert: "PeerCacheChecksumMismatch", at: "16m", onNode: true, labels: map[string]string{"reason": "checksum"},
		series: [][2]string{{`peercache_read_misses_total{@,node,reason="checksum"}`, "0x4 1x30"}},
		says: "Member demo-1 on node gpu-1 dropped 1 pages whose checksum was wrong: memory or a network card corrupts data. " +
			"No engine got them."},
	{alert: "PeerCacheChecksumMismatch", at: "40m", series: [][2]string{
		{`peercache_read_misses_total{@,node,reason="checksum"}`, "0x4 1x60"}, {`peercache_read_misses_total{@,node,reason="stale"}`, "0+9x60"}}},

	{alert: "PeerCacheReadFaults", at: "20m",
		series: [][2]string{{`peercache_read_misses_total{@,node,reason="stale"}`, "0+2x60"},
			{`peercache_read_misses_total{@,node,reason="absent"}`, "0+50x60"}, {`peercache_read_requests_total{@,node}`, "0+100x60"}},
		says: "2% of the pages asked for in inference/demo are missed although they may exist."},
	{alert: "PeerCacheReadFaults", at: "20m",
		series: [][2]string{{`peercache_read_misses_total{@,node,reason="stale"}`, "0+1x60"},
			{`peercache_read_misses_total{@,node,reason="absent"}`, "0+900x60"}, {`peercache_read_requests_total{@,node}`, "0+1000x60"}}},

	{alert: "PeerCacheWritesRefused", at: "20m",
		series: [][2]string{{`peercache_write_refused_total{@,node,reason="full"}`, "0+5x60"}, {`peercache_write_requests_total{@,node}`, "0+100x60"}},
		says:   "5% of the pages to store in inference/demo are refused."},
	{alert: "PeerCacheWritesRefused", at: "20m",
		series: [][2]string{{`peercache_write_refused_total{@,node,reason="full"}`, "0+5x60"}, {`peercache_write_requests_total{@,node}`, "0+1000x60"}}},

	// A day of 90 % hits is followed by 10 %.
	{alert: "PeerCacheHitRatioFell", every: "5m", at: "1485m",
		series: [][2]string{{`peercache_lookup_pages_total{@,node,op="exists"}`, "0+3000x300"},
			{`peercache_delivered_pages_total{@,node,tier="local"}`, "0+2700x288 777900+300x12"}},
		says: "Engines get 10% of the pages that they look up in inference/demo."},
	{alert: "PeerCacheHitRatioFell", every: "5m", at: "1485m",
		series: [][2]string{{`peercache_lookup_pages_total{@,node,op="exists"}`, "0+3000x300"},
			{`peercache_delivered_pages_total{@,node,tier="local"}`, "0+2700x288 779100+1500x12"}}},
	// Every lookup misses, so nothing is read.
	{alert: "PeerCacheHitRatioFell", every: "5m", at: "1485m",
		series: [][2]string{{`peercache_lookup_pages_total{@,node,op="exists"}`, "0+3000x300"},
			{`peercache_delivered_pages_total{@,node,tier="tcp"}`, "0+2700x288 777600x12"},
			{`peercache_read_requests_total{@,node}`, "0+2700x288 777600x12"}},
		says: "Engines get 0% of the pages that they look up in inference/demo."},
	// The hits fall equally, but engines hardly look up pages.
	{alert: "PeerCacheHitRatioFell", every: "5m", at: "1485m",
		series: [][2]string{{`peercache_lookup_pages_total{@,node,op="exists"}`, "0+50x300"},
			{`peercache_delivered_pages_total{@,node,tier="local"}`, "0+45x288 12965+5x12"}}},

	{alert: "PeerCacheRepairBacklog", at: "40m", onNode: true, series: [][2]string{{`peercache_repair_backlog_pages{@,node}`, "5x60"}},
		says: "Member demo-1 on node gpu-1 has had pages to repair for half an hour; other members may miss them."},
	// A member that has just started has no earlier figures.
	{alert: "PeerCacheRepairBacklog", at: "25m", series: [][2]string{{`peercache_repair_backlog_pages{@,node}`, "5x60"}}},
	{alert: "PeerCacheRepairBacklog", at: "40m", series: [][2]string{{`peercache_repair_backlog_pages{@,node}`, "5x9 0 5x9 0 5x9 0 5x9"}}},

	{alert: "PeerCacheDirectoryNearlyFull", at: "15m", onNode: true,
		series: [][2]string{{`peercache_directory_records{@,node}`, "95x30"}, {`peercache_directory_records_limit{@,node}`, "100x30"}},
		says:   "Member demo-1 on node gpu-1 holds 95% of the records it may hold."},
	{alert: "PeerCacheDirectoryNearlyFull", at: "15m",
		series: [][2]string{{`peercache_directory_records{@,node}`, "90x30"}, {`peercache_directory_records_limit{@,node}`, "100x30"}}},

	{alert: "PeerCacheCertificateExpires", at: "15m", onNode: true,
		series: [][2]string{{`peercache_tls_certificate_expiry_timestamp_seconds{@,node}`, "86400x30"}},
		says:   "Member demo-1 on node gpu-1 will be refused by other members when its certificate has expired."},
	{alert: "PeerCacheCertificateExpires", at: "15m",
		series: [][2]string{{`peercache_tls_certificate_expiry_timestamp_seconds{@,node}`, "864000x30"},
			{`peercache_tls_certificate_expiry_timestamp_seconds{@,pod="without-tls"}`, "0x30"}}},

	{alert: "PeerCachePeersRejected", at: "20m", onNode: true,
		series: [][2]string{{`peercache_peer_bad_frames_total{@,node}`, "0+1x30"}, {`peercache_peer_failed_hellos_total{@,node}`, "0x30"}},
		says:   "Member demo-1 on node gpu-1 refuses connections: a scanner, another cluster's member, or a wrong token."},
	{alert: "PeerCachePeersRejected", at: "20m",
		series: [][2]string{{`peercache_peer_bad_frames_total{@,node}`, "0 1x30"}, {`peercache_peer_failed_hellos_total{@,node}`, "0x30"}}},
}
