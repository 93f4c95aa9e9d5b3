// The node itself and its place in the cluster: pool, directory, members, peers, process.
#include <algorithm>

#include "node/report/metric_series.h"
#include "version.h"

namespace peercache {
namespace {

size_t MembersIn(const Scrape& s, MemberState state) {
  if (s.view == nullptr) return 0;
  return static_cast<size_t>(std::count_if(s.view->members.begin(), s.view->members.end(),
                                           [state](const Member& m) { return m.state == state; }));
}

// Zero while TLS is off.
template <typename Read>
Series OfTls(Read read, Values values = {}) {
  return Of([read](const Scrape& s) { return s.tls ? static_cast<double>(read(*s.tls)) : 0; },
            std::move(values));
}
Series TlsFailures(TlsProblem problem, const char* reason) {
  return OfTls(
      [problem](const Tls::Stats& tls) { return tls.failures[static_cast<size_t>(problem)]; },
      {reason});
}

}  // namespace

MetricSection PoolMetrics() {
  return {
      "Pool and eviction",
      "",
      {
          {"peercache_pool_capacity_bytes",
           kGauge,
           "Size of the pool.",
           {},
           {Of([](const Scrape& s) { return s.pool.capacity_bytes; })}},
          {"peercache_pool_bytes",
           kGauge,
           "Pool memory by state: held by pages (used), evicted and waiting for a lease to pass "
           "(quarantined), or free.",
           {"state"},
           {Of([](const Scrape& s) { return s.pool.used_bytes; }, {"used"}),
            Of([](const Scrape& s) { return s.pool.quarantined_bytes; }, {"quarantined"}),
            Of([](const Scrape& s) { return s.pool.free_bytes; }, {"free"})},
           "Is the pool full?",
           "peercache_pool_bytes{state=\"free\"} / ignoring (state) peercache_pool_capacity_bytes"},
          {"peercache_pool_slots",
           kGauge,
           "Slots by state: free, being filled by a set (writing), readable (ready), evicted with "
           "records that are being withdrawn (withdrawing), resting until no reader can know them "
           "(quarantined).",
           {"state"},
           {Of([](const Scrape& s) { return s.pool.slots.free; }, {"free"}),
            Of([](const Scrape& s) { return s.pool.slots.writing; }, {"writing"}),
            Of([](const Scrape& s) { return s.pool.slots.ready; }, {"ready"}),
            Of([](const Scrape& s) { return s.pool.slots.withdrawing; }, {"withdrawing"}),
            Of([](const Scrape& s) { return s.pool.slots.quarantined; }, {"quarantined"})},
           "Do withdrawals hang? (withdrawing stays high: shards do not answer)",
           "min_over_time(peercache_pool_slots{state=\"withdrawing\"}[1m]) > 0"},
          {"peercache_pool_pages", kGauge, "Pages that can be read.", {}, {Of([](const Scrape& s) {
             return s.pool.pages;
           })}},
          {"peercache_pool_payload_bytes",
           kGauge,
           "Payload of these pages, without what slots lose to rounding.",
           {},
           {Of([](const Scrape& s) { return s.pool.payload_bytes; })}},
          {"peercache_pool_reserve_bytes",
           kGauge,
           "Slots that eviction keeps free or in quarantine, for the present rate of sets.",
           {},
           {Of([](const Scrape& s) { return s.reserve_bytes; })}},
          {"peercache_pool_reserve_failures_total",
           kCounter,
           "Times that a set found no free slot at first.",
           {},
           {Of([](const Scrape& s) { return s.pool.reserve_failures; })}},
          {"peercache_pool_huge_pages",
           kGauge,
           "1 when the pool lies in huge pages.",
           {},
           {Of([](const Scrape& s) { return s.pool.huge; })}},
          {"peercache_pool_info",
           kGauge,
           "Always 1; the label shows how the pool chooses the pages to evict.",
           {"eviction"},
           {Info(
               "lru or s3fifo",
               [](const Scrape& s) { return std::string(EvictionPolicyName(s.pool.eviction)); })}},
          {"peercache_evictions_total",
           kCounter,
           "Pages evicted: for new ones (room), with their whole chunk for pages of another size "
           "(resize), or replicas for newer ones (replica).",
           {"reason"},
           {Of([](const Scrape& s) { return s.pool.evictions - s.pool.evictions_resize; },
               {"room"}),
            Of([](const Scrape& s) { return s.pool.evictions_resize; }, {"resize"}),
            Of(
                [](const Scrape& s) {
                  return s.replicas.evictions_replica + s.pool.evictions_replica;
                },
                {"replica"})},
           "How long does a page stay? (seconds, when the pool is full)",
           "peercache_pool_pages / on (instance) "
           "sum by (instance) (rate(peercache_evictions_total{reason!=\"replica\"}[15m]))"},
          {"peercache_cleared_pages_total",
           kCounter,
           "Pages dropped because an engine cleared them.",
           {},
           {Of([](const Scrape& s) { return s.pool.cleared; })}},
      }};
}

MetricSection DirectoryMetrics() {
  return {
      "Directory and repair",
      "This node's shard of the directory, and the records of this node's pages in the shards of "
      "others.",
      {
          {"peercache_directory_records",
           kGauge,
           "Records in this node's shard.",
           {},
           {Of([](const Scrape& s) { return s.shard.records; })}},
          {"peercache_directory_records_limit",
           kGauge,
           "Records that the shard may hold (max-directory-records).",
           {},
           {Of([](const Scrape& s) { return s.max_records; })}},
          {"peercache_directory_owners",
           kGauge,
           "Nodes whose records are in the shard.",
           {},
           {Of([](const Scrape& s) { return s.shard.owners; })}},
          {"peercache_directory_fresh_owners",
           kGauge,
           "Of these, nodes known to be alive; records of other nodes are not served.",
           {},
           {Of([](const Scrape& s) { return s.shard.fresh_owners; })}},
          {"peercache_directory_keys_asked_total",
           kCounter,
           "Keys that this node and others looked up in the shard.",
           {},
           {Of([](const Scrape& s) { return s.shard.lookups; })}},
          {"peercache_directory_keys_found_total",
           kCounter,
           "Of these, keys with a record to serve.",
           {},
           {Of([](const Scrape& s) { return s.shard.hits; })}},
          {"peercache_directory_suppressed_total",
           kCounter,
           "Of these, keys that only silent owners have: they are not served.",
           {},
           {Of([](const Scrape& s) { return s.shard.suppressed; })},
           "Are pages missed because their holders have lost touch with the directory?",
           "rate(peercache_directory_suppressed_total[5m]) > 0"},
          {"peercache_directory_refused_total",
           kCounter,
           "Records refused: no room in the shard (full), or overtaken by what the owner has sent "
           "since (stale).",
           {"reason"},
           {Of([](const Scrape& s) { return s.shard.refused_full; }, {"full"}),
            Of([](const Scrape& s) { return s.shard.refused_stale; }, {"stale"})}},
          {"peercache_lookups_total",
           kCounter,
           "Lookups of other nodes that this shard answered.",
           {},
           {Of(&Counters::lookups)}},
          {"peercache_lookup_keys_total",
           kCounter,
           "Keys in these lookups.",
           {},
           {Of(&Counters::lookup_keys)}},
          {"peercache_directory_grants_total",
           kCounter,
           "Times that this shard let another node read its memory for the next seconds "
           "(directory-lookups one-sided).",
           {},
           {Of(&Counters::grants)}},
          {"peercache_keys_looked_up_total",
           kCounter,
           "Keys that this node looked up in shards of others: by asking them (rpc), or in their "
           "memory alone (one_sided).",
           {"how"},
           {Of(&Counters::asked_for, {"rpc"}), Of(&Counters::looked_up, {"one_sided"})},
           "What share of lookups is one-sided?",
           "sum(rate(peercache_keys_looked_up_total{how=\"one_sided\"}[5m])) / "
           "sum(rate(peercache_keys_looked_up_total[5m]))"},
          {"peercache_one_sided_fallbacks_total",
           kCounter,
           "Keys that were looked up in a shard's memory in vain, so that the shard was asked: "
           "their "
           "bucket was just being written (torn), does not hold all records of its keys "
           "(elsewhere), has records of an owner that the shard has not granted "
           "(ungranted), or could not be read (unread).",
           {"reason"},
           {Of(&Counters::look_torn, {"torn"}), Of(&Counters::look_elsewhere, {"elsewhere"}),
            Of(&Counters::look_ungranted, {"ungranted"}), Of(&Counters::look_unread, {"unread"})},
           "Why are shards asked although their memory could be read?",
           "sum by (reason) (rate(peercache_one_sided_fallbacks_total[5m])) > 0"},
          {"peercache_directory_withdrawals_total",
           kCounter,
           "Pages whose records were withdrawn before their slots could be reused.",
           {},
           {Of(&Counters::withdrawn)}},
          {"peercache_directory_withdrawals_unacknowledged_total",
           kCounter,
           "Withdrawals whose shard did not answer; their slots rest longer.",
           {},
           {Of(&Counters::withdraw_unacknowledged)}},
          {"peercache_directory_messages_total",
           kCounter,
           "Messages to other nodes' shards: records (publish), records that go (withdraw), and "
           "signs of life that keep this node's records served (contact).",
           {"kind"},
           {Of(&Counters::publish_messages, {"publish"}),
            Of(&Counters::withdraw_messages, {"withdraw"}),
            Of(&Counters::contact_messages, {"contact"})}},
          {"peercache_repair_backlog_pages",
           kGauge,
           "Pages of this node that repair has yet to check or could not put right; 0 when all "
           "records are where the ring assigns them.",
           {},
           {Of([](const Scrape& s) { return s.repair_backlog; })},
           "Has the directory recovered from the last change?",
           "sum(peercache_repair_backlog_pages) == 0"},
          {"peercache_repair_unsynced_members",
           kGauge,
           "Members to whose shard this node has to publish its pages again.",
           {},
           {Of([](const Scrape& s) { return s.breakers.unsynced; })}},
          {"peercache_repair_passes_total",
           kCounter,
           "Repair passes over the pool.",
           {},
           {Of(&Counters::repair_passes)}},
          {"peercache_directory_republishes_total",
           kCounter,
           "Pages whose records repair has published again or moved.",
           {},
           {Of(&Counters::republished)}},
      }};
}

MetricSection MemberMetrics() {
  return {
      "Members",
      "The cluster as this node sees it.",
      {
          {"peercache_ready",
           kGauge,
           "1 when the node has joined and serves engines.",
           {},
           {Of([](const Scrape& s) { return s.ready; })},
           "Which nodes do not serve?",
           "peercache_ready == 0"},
          {"peercache_bypassed",
           kGauge,
           "1 while bypass-file is on: gets of engines are misses, and their sets are refused.",
           {},
           {Of([](const Scrape& s) { return s.bypassed; })},
           "Where is the cache bypassed?",
           "peercache_bypassed == 1"},
          {"peercache_members",
           kGauge,
           "Members of the cluster as this node sees it, itself included.",
           {},
           {Of([](const Scrape& s) { return s.view ? s.view->members.size() : 0; })},
           "Do nodes disagree about the members? (for more than seconds)",
           "max(peercache_members) != min(peercache_members)"},
          {"peercache_member_states",
           kGauge,
           "Members by state.",
           {"state"},
           {Of([](const Scrape& s) { return MembersIn(s, MemberState::kJoining); }, {"joining"}),
            Of([](const Scrape& s) { return MembersIn(s, MemberState::kActive); }, {"active"}),
            Of([](const Scrape& s) { return MembersIn(s, MemberState::kDraining); }, {"draining"})},
           "Does a join or a drain hang?",
           "min_over_time(peercache_member_states{state!=\"active\"}[5m]) > 0"},
          {"peercache_members_unreachable",
           kGauge,
           "Of the members, those that most others get no answers from; they are in no ring.",
           {},
           {Of([](const Scrape& s) { return s.view ? s.view->unreachable.size() : 0; })},
           "Is a node frozen or cut off, though its heartbeats reach the discovery hosts?",
           "max(peercache_members_unreachable) > 0"},
          {"peercache_ring_epoch",
           kGauge,
           "Changes of the ring seen by this node since it started.",
           {},
           {Of([](const Scrape& s) { return s.view ? s.view->epoch : 0; })},
           "Does the membership flap?",
           "changes(peercache_ring_epoch[10m]) > 6"},
          {"peercache_discovery_hosts",
           kGauge,
           "Addresses that discovery-addr stands for now.",
           {},
           {Of([](const Scrape& s) { return s.discovery_hosts; })}},
          {"peercache_discovery_hosts_answering",
           kGauge,
           "Of these, hosts that answered the last heartbeat.",
           {},
           {Of([](const Scrape& s) { return s.discovery_answering; })},
           "Is discovery about to be lost?",
           "peercache_discovery_hosts_answering < peercache_discovery_hosts"},
          {"peercache_heartbeats_total",
           kCounter,
           "Heartbeats sent, one to each discovery host.",
           {},
           {Of(&Counters::heartbeats)}},
          {"peercache_heartbeats_answered_total",
           kCounter,
           "Heartbeats of members that this node answered as a discovery host.",
           {},
           {Of(&Counters::heartbeats_answered)}},
          {"peercache_heartbeat_failures_total",
           kCounter,
           "Heartbeats without answer.",
           {},
           {Of(&Counters::heartbeat_failures)}},
          {"peercache_breakers",
           kGauge,
           "Other members by the state of their circuit breaker: answering (closed), failed a "
           "moment ago and not asked for now (open), may be tried again (half_open).",
           {"state"},
           {Of([](const Scrape& s) { return s.breakers.closed; }, {"closed"}),
            Of([](const Scrape& s) { return s.breakers.open; }, {"open"}),
            Of([](const Scrape& s) { return s.breakers.half_open; }, {"half_open"})},
           "Which nodes cannot reach a member?",
           "peercache_breakers{state=\"open\"} > 0"},
          {"peercache_breaker_trips_total",
           kCounter,
           "Failed exchanges with peers, each of which opened a breaker or kept it open.",
           {},
           {Of([](const Scrape& s) { return s.breakers.trips; })}},
      }};
}

MetricSection PeerMetrics() {
  return {
      "Peers",
      "What this node does for others, and which connections its peer port gets.",
      {
          {"peercache_served_pages_total",
           kCounter,
           "Pages sent to other nodes.",
           {},
           {Of(&Counters::served_pages)}},
          {"peercache_served_bytes_total",
           kCounter,
           "Bytes of these pages.",
           {},
           {Of(&Counters::served_bytes)},
           "Which nodes carry most of the reads of others?",
           "topk(5, rate(peercache_served_bytes_total[5m]))"},
          {"peercache_served_absent_total",
           kCounter,
           "Pages that other nodes asked for and that had moved on.",
           {},
           {Of(&Counters::served_absent)}},
          {"peercache_peer_connections",
           kGauge,
           "Connections of peers.",
           {},
           {Of([](const Scrape& s) { return s.server.connections; })}},
          {"peercache_peer_connections_limit",
           kGauge,
           "Connections of peers that are accepted.",
           {},
           {Of([](const Scrape& s) { return s.max_peer_connections; })}},
          {"peercache_peer_strangers",
           kGauge,
           "Of the connections, those that have not greeted yet.",
           {},
           {Of([](const Scrape& s) { return s.server.strangers; })}},
          {"peercache_peer_refused_total",
           kCounter,
           "Connections closed before they greeted: too many connections (connections), oldest of "
           "too many strangers of one source (source_strangers) or of all (crowded_out), no Hello "
           "in time (slow_hello), wrong Hello of a source that has failed too often, closed "
           "without "
           "an answer (source_failures).",
           {"reason"},
           {Of([](const Scrape& s) { return s.server.refused; }, {"connections"}),
            Of([](const Scrape& s) { return s.server.source_crowded_out; }, {"source_strangers"}),
            Of([](const Scrape& s) { return s.server.gate.unanswered; }, {"source_failures"}),
            Of([](const Scrape& s) { return s.server.too_slow; }, {"slow_hello"}),
            Of([](const Scrape& s) { return s.server.crowded_out; }, {"crowded_out"})},
           "Does a client scan or flood the peer port?",
           "sum by (reason) (rate(peercache_peer_refused_total[5m])) > 0"},
          {"peercache_peer_unfinished_total",
           kCounter,
           "Connections closed because a request did not come to its end within 10 s and a second "
           "for "
           "each 8 MiB.",
           {},
           {Of([](const Scrape& s) { return s.server.unfinished; })},
           "Does a peer, or the way to it, hang in the middle of requests?",
           "rate(peercache_peer_unfinished_total[5m]) > 0"},
          {"peercache_peer_distrusted_total",
           kCounter,
           "Connections closed because the token that they were made by was replaced.",
           {},
           {Of([](const Scrape& s) { return s.server.distrusted; })},
           "Does a node miss that the token was replaced?",
           "increase(peercache_peer_distrusted_total[15m]) > 0"},
          {"peercache_peer_failed_hellos_total",
           kCounter,
           "Connections refused at their Hello: wrong token or cluster, foreign clients; and "
           "handshakes of TLS that were begun and not ended.",
           {},
           {Of([](const Scrape& s) { return s.server.gate.failures; })},
           "Does a node have the wrong token?",
           "rate(peercache_peer_failed_hellos_total[5m]) > 0"},
          {"peercache_peer_bad_frames_total",
           kCounter,
           "Malformed or refused frames of peers.",
           {},
           {Of([](const Scrape& s) { return s.server.bad_frames; })}},
      }};
}

MetricSection TlsMetrics() {
  return {
      "TLS",
      "Of the connections to peers and to discovery; all 0 while TLS is off.",
      {
          {"peercache_tls_enabled",
           kGauge,
           "1 when peers speak TLS (tls-cert-file).",
           {},
           {Of([](const Scrape& s) { return s.tls.has_value(); })},
           "Do all nodes agree about TLS?",
           "max(peercache_tls_enabled) != min(peercache_tls_enabled)"},
          {"peercache_tls_certificate_expiry_timestamp_seconds",
           kGauge,
           "When this node's certificate expires, in seconds since 1970.",
           {},
           {OfTls([](const Tls::Stats& tls) {
             return std::chrono::duration<double>(tls.expires.time_since_epoch()).count();
           })},
           "Which certificates expire within three days?",
           "peercache_tls_certificate_expiry_timestamp_seconds - time() < 3 * 86400 and "
           "peercache_tls_enabled == 1"},
          {"peercache_tls_reloads_total",
           kCounter,
           "Times that the files had changed: and were taken (taken), or did not load or fit "
           "together, so that the previous files are still in use (refused).",
           {"result"},
           {OfTls([](const Tls::Stats& tls) { return tls.reloads; }, {"taken"}),
            OfTls([](const Tls::Stats& tls) { return tls.refused_reloads; }, {"refused"})},
           "Was a renewed certificate not taken?",
           "increase(peercache_tls_reloads_total{result=\"refused\"}[1h]) > 0"},
          {"peercache_tls_handshake_failures_total",
           kCounter,
           "Handshakes that failed, begun by either side: the peer's certificate has expired or is "
           "not valid yet (expired), is not of this node's CAs or not good for both sides "
           "(untrusted), "
           "lacks tls-peer-name (name), or is missing (absent); the peer refuses this node's "
           "(rejected); "
           "the peer does not speak TLS (no_tls); anything else (protocol).",
           {"reason"},
           {TlsFailures(TlsProblem::kExpired, "expired"),
            TlsFailures(TlsProblem::kUntrusted, "untrusted"),
            TlsFailures(TlsProblem::kName, "name"), TlsFailures(TlsProblem::kAbsent, "absent"),
            TlsFailures(TlsProblem::kRejected, "rejected"),
            TlsFailures(TlsProblem::kNoTls, "no_tls"),
            TlsFailures(TlsProblem::kProtocol, "protocol")},
           "Do nodes refuse each other's certificates?",
           "sum by (reason) (rate(peercache_tls_handshake_failures_total[5m])) > 0"},
      }};
}

MetricSection ProcessMetrics() {
  return {
      "Process",
      "Of an embedded node: the process of the engine.",
      {
          {"peercache_uptime_seconds",
           kGauge,
           "Time since the start.",
           {},
           {Of([](const Scrape& s) { return ToSeconds(s.uptime); })},
           "Which nodes have restarted?",
           "peercache_uptime_seconds < 600"},
          {"peercache_build_info",
           kGauge,
           "Always 1; the label is the version of the node.",
           {"version"},
           {Info("of the node", [](const Scrape&) { return std::string(kVersion); })},
           "Do nodes run different versions?",
           "count by (version) (peercache_build_info)"},
          {"process_cpu_seconds_total",
           kCounter,
           "Processor time of the process.",
           {},
           {Of([](const Scrape& s) { return s.process.cpu_seconds; })}},
          {"process_resident_memory_bytes",
           kGauge,
           "Memory of the process, with the parts of the pool and of engines' memory that it has "
           "touched.",
           {},
           {Of([](const Scrape& s) { return s.process.resident_bytes; })}},
          {"process_open_fds",
           kGauge,
           "Open file descriptors.",
           {},
           {Of([](const Scrape& s) { return s.process.open_fds; })},
           "Do descriptors run out?",
           "process_open_fds / process_max_fds > 0.8"},
          {"process_max_fds",
           kGauge,
           "File descriptors that the process may open.",
           {},
           {Of([](const Scrape& s) { return s.process.max_fds; })}},
          {"process_threads", kGauge, "Threads of the process.", {}, {Of([](const Scrape& s) {
             return s.process.threads;
           })}},
      }};
}

}  // namespace peercache
