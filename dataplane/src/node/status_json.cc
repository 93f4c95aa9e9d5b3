#include "node/status_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "version.h"

namespace peercache {
namespace {

using nlohmann::json;

const char* StateName(MemberState state) {
  switch (state) {
    case MemberState::kJoining: return "joining";
    case MemberState::kActive: return "active";
    case MemberState::kDraining: return "draining";
  }
  return "unknown";
}

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

json MembersJson(const NodeStatus& status) {
  json members = json::array();
  if (status.view == nullptr) return members;
  for (const Member& m : status.view->members) {
    const bool unhealthy = std::find(status.unhealthy.begin(), status.unhealthy.end(),
                                     NodeHash(m.id)) != status.unhealthy.end();
    members.push_back({{"id", m.id},
                       {"incarnation", m.incarnation},
                       {"state", StateName(m.state)},
                       {"address", m.host + ":" + std::to_string(m.peer_port)},
                       {"http_port", m.http_port},
                       {"capacity_bytes", m.capacity_bytes},
                       {"breaker", unhealthy ? "open" : "closed"}});
  }
  return members;
}

json CountersJson(const Counters& c) {
  const auto n = [](const Counter& counter) { return static_cast<uint64_t>(counter); };
  return {{"read_requests", n(c.read_requests)},
          {"read_local_hits", n(c.read_local_hits)},
          {"read_remote_hits", n(c.read_remote_hits)},
          {"read_shared_hits", n(c.read_shared_hits)},
          {"read_replica_hits", n(c.read_replica_hits)},
          {"locations_recalled", n(c.locations_recalled)},
          {"write_requests", n(c.write_requests)},
          {"write_stored", n(c.write_stored)},
          {"exists_requests", n(c.exists_requests)},
          {"engine_calls_waited", n(c.engine_calls_waited)},
          {"bytes_read", n(c.bytes_read)},
          {"bytes_written", n(c.bytes_written)},
          {"served_pages", n(c.served_pages)},
          {"served_bytes", n(c.served_bytes)}};
}

}  // namespace

std::string ToJson(const NodeStatus& s, const Counters& counters) {
  json engines = json::array();
  for (const EngineInfo& e : s.engines) {
    engines.push_back({{"name", e.name},
                       {"version", e.version},
                       {"uid", e.owner.uid},
                       {"pid", e.owner.pid},
                       {"connections", e.connections},
                       {"regions", e.regions},
                       {"region_bytes", e.region_bytes}});
  }
  const json document = {
      {"node",
       {{"id", s.self.id},
        {"incarnation", s.self.incarnation},
        {"version", kVersion},
        {"group", s.group},
        {"state", StateName(s.self.state)},
        {"address", s.self.host + ":" + std::to_string(s.self.peer_port)},
        {"ready", s.ready.ok()},
        {"reason", s.ready.message()},
        {"uptime_seconds", Seconds(s.uptime)}}},
      {"ring_epoch", s.view ? s.view->epoch : 0},
      {"members", MembersJson(s)},
      {"discovery", {{"addresses", s.hosts.addresses}, {"answering", s.hosts.answering}}},
      {"pool",
       {{"capacity_bytes", s.pool.capacity_bytes},
        {"used_bytes", s.pool.used_bytes},
        {"quarantined_bytes", s.pool.quarantined_bytes},
        {"free_bytes", s.pool.free_bytes},
        {"reserve_bytes", s.reserve_bytes},
        {"pages", s.pool.pages},
        {"eviction", EvictionPolicyName(s.pool.eviction)},
        {"evictions", s.pool.evictions},
        {"set_stall_seconds", Seconds(s.room.stalled)},
        {"huge_pages", s.pool.huge}}},
      {"directory",
       {{"records", s.shard.records},
        {"owners", s.shard.owners},
        {"fresh_owners", s.shard.fresh_owners}}},
      {"engines", engines},
      {"counters", CountersJson(counters)}};
  // Names are checked where they come in; whatever slips through must not take the status away.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::vector<Sample> GaugeSamples(const GaugeInput& in) {
  constexpr auto kGauge = prometheus::MetricType::Gauge;
  constexpr auto kCounter = prometheus::MetricType::Counter;
  constexpr auto kRefusedHelp =
      "Connections closed before they greeted: too many connections, of one source too many "
      "strangers or failed Hellos, no Hello in time, oldest of too many strangers.";
  const auto sample = [](const char* name, const char* help, prometheus::MetricType type,
                         auto value, std::vector<prometheus::ClientMetric::Label> labels = {}) {
    return Sample{name, help, type, std::move(labels), static_cast<double>(value)};
  };
  std::vector<Sample> samples = {
      sample("peercache_pool_capacity_bytes", "Size of the pool.", kGauge, in.pool.capacity_bytes),
      sample("peercache_pool_bytes", "Pool memory by state.", kGauge, in.pool.used_bytes,
             {{"state", "used"}}),
      sample("peercache_pool_bytes", "", kGauge, in.pool.quarantined_bytes,
             {{"state", "quarantined"}}),
      sample("peercache_pool_bytes", "", kGauge, in.pool.free_bytes, {{"state", "free"}}),
      sample("peercache_pool_pages", "Pages that can be read.", kGauge, in.pool.pages),
      sample("peercache_pool_payload_bytes", "Payload of these pages.", kGauge,
             in.pool.payload_bytes),
      sample("peercache_pool_huge_pages", "1 when the pool lies in huge pages.", kGauge,
             in.pool.huge),
      sample("peercache_pool_info", "How the pool works.", kGauge, 1,
             {{"eviction", std::string(EvictionPolicyName(in.pool.eviction))}}),
      sample("peercache_evictions_total", "Pages evicted.", kCounter, in.pool.evictions),
      sample("peercache_pool_reserve_failures_total", "Sets that found no free slot at first.",
             kCounter, in.pool.reserve_failures),
      sample("peercache_pool_reserve_bytes",
             "Slots that eviction keeps free or in quarantine, for the present rate of sets.",
             kGauge, in.reserve_bytes),
      sample("peercache_write_stalls_total", "Times a set was held up for want of room, by how.",
             kCounter, in.room.paced, {{"how", "paced"}}),
      sample("peercache_write_stalls_total", "", kCounter, in.room.waits, {{"how", "no_slot"}}),
      sample("peercache_write_stall_seconds_total", "Time that sets were held up for want of room.",
             kCounter, Seconds(in.room.stalled)),
      sample("peercache_directory_records", "Records in this node's shard.", kGauge,
             in.shard.records),
      sample("peercache_directory_owners", "Nodes whose records are in the shard.", kGauge,
             in.shard.owners),
      sample("peercache_directory_fresh_owners", "Of these, nodes known to be alive.", kGauge,
             in.shard.fresh_owners),
      sample("peercache_directory_suppressed_total",
             "Lookups that found only records of silent owners.", kCounter, in.shard.suppressed),
      sample("peercache_directory_refused_total", "Records refused, by reason.", kCounter,
             in.shard.refused_full, {{"reason", "full"}}),
      sample("peercache_directory_refused_total", "", kCounter, in.shard.refused_stale,
             {{"reason", "stale"}}),
      sample("peercache_members", "Members of the cluster as this node sees it.", kGauge,
             in.view ? in.view->members.size() : 0),
      sample("peercache_ring_epoch", "Changes of the ring seen by this node.", kGauge,
             in.view ? in.view->epoch : 0),
      sample("peercache_ready", "1 when the node has joined and serves engines.", kGauge, in.ready),
      sample("peercache_engines", "Engines attached.", kGauge, in.engines),
      sample("peercache_breakers_open", "Peers whose breaker is open.", kGauge, in.breakers_open),
      sample("peercache_breaker_trips_total", "Times a breaker opened.", kCounter,
             in.breaker_trips),
      sample("peercache_peer_connections", "Connections of peers.", kGauge, in.server.connections),
      sample("peercache_peer_strangers", "Of these, connections that have not greeted yet.", kGauge,
             in.server.strangers),
      sample("peercache_peer_refused_total", kRefusedHelp, kCounter, in.server.refused,
             {{"reason", "connections"}}),
      sample("peercache_peer_refused_total", "", kCounter, in.server.gate.turned_away_strangers,
             {{"reason", "source_strangers"}}),
      sample("peercache_peer_refused_total", "", kCounter, in.server.gate.turned_away_failures,
             {{"reason", "source_failures"}}),
      sample("peercache_peer_refused_total", "", kCounter, in.server.too_slow,
             {{"reason", "slow_hello"}}),
      sample("peercache_peer_refused_total", "", kCounter, in.server.crowded_out,
             {{"reason", "crowded_out"}}),
      sample(
          "peercache_peer_failed_hellos_total",
          "Connections that were refused at their Hello: wrong token or cluster, foreign clients.",
          kCounter, in.server.gate.failures),
      sample("peercache_peer_bad_frames_total", "Malformed or refused frames of peers.", kCounter,
             in.server.bad_frames),
      sample("peercache_uptime_seconds", "Time since the start.", kGauge, Seconds(in.uptime)),
      sample("peercache_build_info", "Version of the node.", kGauge, 1, {{"version", kVersion}}),
  };
  return samples;
}

}  // namespace peercache
