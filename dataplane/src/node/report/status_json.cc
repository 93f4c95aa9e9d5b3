#include "node/report/status_json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "base/cpu_list.h"
#include "node/config/config_json.h"
#include "node/report/disk_json.h"
#include "node/report/fleet_json.h"
#include "node/report/places.h"
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

// `view` outlives it, and may be null.
NameOfNode NamesIn(const View* view) {
  return [view](uint64_t node) {
    const Member* const member = view == nullptr ? nullptr : view->Find(node);
    return member == nullptr ? std::string() : member->id;
  };
}

json MembersJson(const NodeStatus& status) {
  json members = json::array();
  if (status.view == nullptr) return members;
  const NameOfNode name_of = NamesIn(status.view.get());
  for (const Member& m : status.view->members) {
    const bool unhealthy = std::find(status.unhealthy.begin(), status.unhealthy.end(),
                                     NodeHash(m.id)) != status.unhealthy.end();
    members.push_back({{"id", m.id},
                       {"incarnation", m.incarnation},
                       {"state", StateName(m.state)},
                       {"address", m.host + ":" + std::to_string(m.peer_port)},
                       {"http_port", m.http_port},
                       {"capacity_bytes", m.capacity_bytes},
                       {"breaker", unhealthy ? "open" : "closed"},
                       // By the word of most members: it is in no ring.
                       {"reachable", !status.view->IsUnreachable(NodeHash(m.id))}});
    const auto report = std::ranges::lower_bound(status.reports, m.id, {}, &MemberReport::id);
    if (report != status.reports.end() && report->id == m.id)
      members.back()["health"] = HealthJson(*report, name_of);
  }
  return members;
}

json SlowPlacesJson(const NodeStatus& status) {
  json places = json::array();
  const NameOfNode name_of = NamesIn(status.view.get());
  for (const SlowPlace& place : status.slow) {
    places.push_back({{"member", name_of(place.node)},
                      {"tier", place.tier == Tier::kDisk ? "disk" : "memory"},
                      {"bytes_per_second", place.bytes_per_second}});
  }
  return places;
}

json TlsJson(const std::optional<Tls::Stats>& tls) {
  if (!tls) return {{"enabled", false}};
  return {
      {"enabled", true},
      {"certificate_expires",
       fmt::format("{:%FT%TZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(tls->expires)))},
      {"certificate_expires_in_seconds",
       ToSeconds(tls->expires - std::chrono::system_clock::now())},
      {"reloads", tls->reloads},
      {"refused_reloads", tls->refused_reloads}};
}

json TransportJson(const NodeStatus& s) {
  json rails = json::array();
  for (size_t i = 0; i < s.fabric.rails.size(); ++i) {
    const RailInfo& r = s.fabric.rails[i];
    rails.push_back({{"name", r.name},
                     {"up", r.up},
                     {"address", r.address},
                     {"waits_for", rdma::WaitsForName(r.waits.what)},
                     {"why", r.waits.why},
                     {"numa_node", r.numa_node},
                     {"line_rate_bytes_per_second", i < s.line_rates.size() ? s.line_rates[i] : 0},
                     {"memory", r.memory},
                     {"ordering", r.ordering},
                     {"reads", r.stats.reads},
                     {"read_bytes", r.stats.bytes},
                     {"queue_pair_failures", r.stats.failures}});
  }
  return {{"kind", rails.empty() ? "tcp" : "rdma"},
          {"reason", s.transport},
          {"tcp_congestion", s.tcp_congestion},
          {"rails", rails},
          {"class_mismatches", s.fabric.classes.links},
          {"class_mismatch", s.fabric.classes.now},
          {"links", s.fabric.links.links},
          {"queue_pairs_reading", s.fabric.links.queues},
          {"queue_pairs_serving", s.fabric.acceptor.queues}};
}

json NumaJson(const NumaStats& numa) {
  json memory = {{"placement", NumaMemoryName(numa.memory.memory)},
                 {"why", numa.memory.why},
                 {"told_by", NumaSourceName(numa.pool.source)}};
  if (numa.pool.known()) {
    memory["sampled_pages"] = {{"node", numa.pool.on_node},
                               {"elsewhere", numa.pool.elsewhere},
                               {"absent", numa.pool.absent}};
  }
  return {{"node", numa.wish.node},
          {"why", numa.wish.why},
          {"threads", {{"cpus", FormatCpuList(numa.cpus)}, {"why", numa.threads_why}}},
          {"memory", memory}};
}

// Of the pages that this node had, or has, when it leaves; none before.
json DrainJson(const Counters& c) {
  const auto both = [](const Counter& pages, const Counter& bytes) {
    return json{{"pages", static_cast<uint64_t>(pages)}, {"bytes", static_cast<uint64_t>(bytes)}};
  };
  return {{"planned", both(c.drain_planned, c.drain_planned_bytes)},
          {"moved", both(c.drain_moved, c.drain_moved_bytes)},
          {"refused", both(c.drain_refused, c.drain_refused_bytes)},
          {"failed", both(c.drain_failed, c.drain_failed_bytes)},
          {"left", both(c.drain_left, c.drain_left_bytes)}};
}

// Since the start: docs/hit-ratio.md.
json LookupsJson(const Counters& c) {
  const auto both = [](const PageCounter& counter) {
    return json{{"pages", static_cast<uint64_t>(counter.pages)},
                {"tokens", static_cast<uint64_t>(counter.tokens)}};
  };
  const auto delivered = [&](PageSource source) {
    return both(c.delivered[static_cast<size_t>(source)]);
  };
  return {{"looked_up_pages", c.looked_up_pages()},
          {"delivered_pages", c.delivered_pages()},
          {"looked_up", {{"exists", both(c.lookup_exists)}, {"get", both(c.lookup_get)}}},
          {"found", both(c.found)},
          {"delivered",
           {{"local", delivered(PageSource::kLocal)},
            {"replica", delivered(PageSource::kReplica)},
            {"shared", delivered(PageSource::kShared)},
            {"tcp", delivered(PageSource::kTcp)},
            {"rdma", delivered(PageSource::kRdma)},
            {"mapped", delivered(PageSource::kMapped)},
            {"disk", delivered(PageSource::kDisk)}}}};
}

// Of the shared tenant the name is empty.
json TenantsJson(const NodeStatus& s) {
  json tenants = json::array();
  for (const TenantInfo& t : s.tenants) {
    tenants.push_back({{"name", t.name},
                       {"engines", t.sessions},
                       {"shared_bytes", t.shared_bytes},
                       {"pool_bytes", t.pool_bytes},
                       {"refused",
                        {{"engines", t.refused_sessions},
                         {"process", t.refused_process},
                         {"memory", t.refused_memory},
                         {"clears", t.refused_clears}}}});
  }
  return tenants;
}

json CountersJson(const Counters& c) {
  const auto n = [](const Counter& counter) { return static_cast<uint64_t>(counter); };
  return {{"read_requests", n(c.read_requests)},
          {"read_local_hits", n(c.read_local_hits)},
          {"read_remote_hits", n(c.read_remote_hits)},
          {"read_shared_hits", n(c.read_shared_hits)},
          {"read_replica_hits", n(c.read_replica_hits)},
          {"read_disk_hits", n(c.read_disk_hits)},
          {"locations_recalled", n(c.locations_recalled)},
          {"lookup_keys_rpc", n(c.asked_for)},
          {"lookup_keys_one_sided", n(c.looked_up)},
          {"one_sided_fallbacks",
           n(c.look_torn) + n(c.look_elsewhere) + n(c.look_ungranted) + n(c.look_unread)},
          {"served_lookups", n(c.lookups)},
          {"write_requests", n(c.write_requests)},
          {"write_stored", n(c.write_stored)},
          {"exists_requests", n(c.exists_requests)},
          {"engine_calls_waited", n(c.engine_calls_waited)},
          {"bytes_read", c.bytes_read()},
          {"bytes_written", n(c.bytes_written)},
          {"served_pages", n(c.served_pages)},
          {"served_bytes", n(c.served_bytes)}};
}

json EventsJson(const std::vector<PastEvent>& past) {
  json events = json::array();
  for (const PastEvent& e : past)
    events.push_back({{"seconds_ago", ToSeconds(e.age)}, {"what", e.what}, {"whom", e.whom}});
  return events;
}

json EnginesJson(const std::vector<EngineInfo>& all) {
  json engines = json::array();
  for (const EngineInfo& e : all) {
    engines.push_back({{"name", e.name},
                       {"version", e.version},
                       {"tenant", e.tenant},
                       {"uid", e.owner.uid},
                       {"pid", e.owner.pid},
                       {"connections", e.connections},
                       {"prefill_tokens_per_second", e.prefill},
                       {"regions", e.regions},
                       {"region_bytes", e.region_bytes},
                       {"registered_bytes", e.registered_bytes},
                       {"bytes_in_small_pages", e.pages.small},
                       {"bytes_in_huge_pages", e.pages.huge}});
  }
  return engines;
}

void HidePlaces(json* object, std::initializer_list<const char*> fields) {
  for (const char* field : fields)
    object->at(field) = WithoutPlaces(object->at(field).get_ref<const std::string&>());
}

// Takes away what helps somebody who has no business here. The operator and the kubectl plug-in
// are strangers, too: what is wrong with a rail or a drive is for them, but for places.
void Redact(json* document) {
  for (const char* key : {"config", "tenants", "events"}) document->erase(key);
  document->at("discovery").erase("addresses");
  document->at("node").erase("address");
  HidePlaces(&document->at("node"), {"reason"});
  document->at("pool").erase("start_why");
  for (json& member : document->at("members")) {
    for (const char* key : {"address", "http_port"}) member.erase(key);
    if (member.contains("health")) member["health"].erase("activity");
  }
  if (document->contains("activity"))
    for (const char* key : {"machine", "reads_from"}) document->at("activity").erase(key);
  for (json& engine : document->at("engines"))
    for (const char* key : {"name", "version", "tenant", "uid", "pid"}) engine.erase(key);
  json& transport = document->at("transport");
  transport.erase("class_mismatch");  // it names a peer's address
  HidePlaces(&transport, {"reason"});
  for (json& rail : transport.at("rails")) {
    rail.erase("address");
    HidePlaces(&rail, {"name", "why"});
  }
  HidePlaces(&document->at("numa"), {"why"});
  for (const char* part : {"threads", "memory"})
    HidePlaces(&document->at("numa").at(part), {"why"});
  if (document->contains("disk"))
    for (json& drive : document->at("disk").at("devices"))
      HidePlaces(&drive, {"path", "io", "why"});
  if (document->contains("fleet"))
    for (json& off : document->at("fleet").at("disks").at("first_off")) HidePlaces(&off, {"disk"});
}

}  // namespace

std::string ToJson(const NodeStatus& s, const NodeConfig& config, const Counters& counters,
                   Asker asker) {
  json document = {
      {"asker", asker == Asker::kOwnMachine ? "own_machine" : "stranger"},
      {"node",
       {{"id", s.self.id},
        {"incarnation", s.self.incarnation},
        {"version", kVersion},
        {"group", s.group},
        {"state", StateName(s.self.state)},
        {"address", s.self.host + ":" + std::to_string(s.self.peer_port)},
        {"ready", s.ready.ok()},
        {"reason", s.ready.message()},
        {"bypassed", s.bypassed},
        {"uptime_seconds", ToSeconds(s.uptime)}}},
      {"config", ConfigJson(config)},
      {"ring_epoch", s.view ? s.view->epoch : 0},
      // Equal on all nodes that agree on every owner of a record.
      {"ring_fingerprint", fmt::format("{:016x}", s.view ? s.view->current.Fingerprint() : 0)},
      {"members", MembersJson(s)},
      {"slower_than_computing", SlowPlacesJson(s)},
      {"tls", TlsJson(s.tls)},
      {"transport", TransportJson(s)},
      {"numa", NumaJson(s.numa)},
      {"discovery",
       {{"addresses", s.hosts.addresses},
        {"answering", s.hosts.answering},
        {"refusing", s.hosts.refusing}}},
      {"pool",
       {{"capacity_bytes", s.pool.capacity_bytes},
        {"used_bytes", s.pool.used_bytes},
        {"quarantined_bytes", s.pool.quarantined_bytes},
        {"free_bytes", s.pool.free_bytes},
        {"reserve_bytes", s.reserve_bytes},
        {"pages", s.pool.pages},
        {"eviction", EvictionPolicyName(s.pool.eviction)},
        {"evictions", s.pool.evictions},
        // Of the pages, copies of other nodes' with records in the directory.
        {"replicas", s.pool.replicas},
        {"replica_bytes", s.pool.replica_bytes},
        {"replica_evictions", s.pool.evictions_replica},
        {"set_stall_seconds", ToSeconds(s.room.stalled)},
        {"huge_pages", s.pool.huge},
        {"start", PoolStartName(s.adoption.start)},
        {"start_why", s.adoption.why},
        {"adopted_pages", s.adoption.pages},
        {"adoption_seconds", ToSeconds(s.adoption.took)}}},
      {"directory",
       {{"records", s.shard.records},
        {"owners", s.shard.owners},
        {"fresh_owners", s.shard.fresh_owners}}},
      {"drain", DrainJson(counters)},
      {"engines", EnginesJson(s.engines)},
      {"tenants", TenantsJson(s)},
      {"unserved_tenants", s.unserved_tenants},
      {"lookups", LookupsJson(counters)},
      {"counters", CountersJson(counters)}};
  if (s.disk) document["disk"] = DiskJson(*s.disk);
  if (s.activity) document["activity"] = ActivityJson(*s.activity, NamesIn(s.view.get()));
  document["events"] = EventsJson(s.events);
  if (!s.reports.empty()) document["fleet"] = FleetJson(SummariseFleet(s.reports), s.warming);
  if (asker == Asker::kStranger) Redact(&document);
  // Names are checked where they come in; whatever slips through must not take the status away.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace peercache
