#include "node/report/fleet_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "node/report/flow.h"

namespace peercache {
namespace {

using nlohmann::json;

const char* NumaName(NumaHealth numa) {
  switch (numa) {
    case NumaHealth::kUnknown: return "unknown";
    case NumaHealth::kNotApplicable: return "not_applicable";
    case NumaHealth::kAligned: return "aligned";
    case NumaHealth::kThreadsElsewhere: return "threads_elsewhere";
    case NumaHealth::kMemoryElsewhere: return "memory_elsewhere";
  }
  return "unknown";
}

}  // namespace

json ActivityJson(const Activity& activity, const NameOfNode& name_of) {
  const double seconds = activity.milliseconds / 1e3;
  const auto rate = [&](uint64_t bytes) { return static_cast<double>(bytes) / seconds; };
  json document = FlowJson(activity.flow, seconds);
  json& rails = document["rails"] = json::array();
  for (const Activity::Rail& rail : activity.rails) {
    rails.push_back(
        {{"name", rail.name}, {"up", rail.up}, {"read_bytes_per_second", rate(rail.bytes)}});
  }
  json& sources = document["reads_from"] = json::array();
  for (const Activity::Source& source : activity.sources) {
    if (const std::string id = name_of(source.node); !id.empty())
      sources.push_back({{"id", id}, {"bytes_per_second", rate(source.bytes)}});
  }
  if (activity.machine != 0) document["machine"] = fmt::format("{:08x}", activity.machine);
  return document;
}

json FleetJson(const FleetSummary& f, bool warming) {
  const auto state = [&](MemberState s) { return f.in_state[static_cast<size_t>(s)]; };
  const auto numa = [&](NumaHealth n) { return f.in_numa[static_cast<size_t>(n)]; };
  json down = json::array(), misplaced = json::array(), groups = json::array();
  json off = json::array();
  for (const MemberReport& r : f.drives_off) {
    const Activity::Drives& drives = r.health.activity->drives;
    off.push_back(
        {{"id", r.id}, {"disks", drives.total}, {"disks_on", drives.on}, {"disk", drives.off}});
  }
  for (const MemberReport& r : f.rails_down) {
    down.push_back({{"id", r.id},
                    {"rails", r.health.rails},
                    {"rails_up", r.health.rails_up},
                    {"rail", r.health.rail_down}});
  }
  for (const MemberReport& r : f.misplaced)
    misplaced.push_back({{"id", r.id}, {"what", NumaName(r.health.numa)}});
  for (const FleetGroup& g : f.groups) {
    groups.push_back(
        {{"name", g.name}, {"members", g.members}, {"rails", g.rails}, {"rails_up", g.rails_up}});
  }
  return {{"warming", warming},
          {"members", f.members},
          {"states",
           {{"joining", state(MemberState::kJoining)},
            {"active", state(MemberState::kActive)},
            {"draining", state(MemberState::kDraining)}}},
          {"rails",
           {{"total", f.rails},
            {"up", f.rails_up},
            {"members_with_some_down", f.with_rails_down},
            {"first_down", down}}},
          {"numa",
           {{"aligned", numa(NumaHealth::kAligned)},
            {"misplaced", f.misplaced_members()},
            {"not_applicable", numa(NumaHealth::kNotApplicable)},
            {"unknown", numa(NumaHealth::kUnknown)},
            {"first_misplaced", misplaced}}},
          {"disks",
           {{"total", f.drives},
            {"on", f.drives_on},
            {"recovering", f.drives_recovering},
            {"members_with_some_off", f.with_drives_off},
            {"first_off", off},
            {"used_bytes", f.drives_used_bytes},
            {"capacity_bytes", f.drives_capacity_bytes},
            {"budget_bytes_a_day", f.drives_budget_bytes},
            {"budget_left_bytes", f.drives_budget_left_bytes}}},
          {"groups", groups},
          {"engines", f.engines},
          {"recent_looked_up", f.recent_looked_up},
          {"recent_delivered", f.recent_delivered},
          {"latest_looked_up", f.latest_looked_up},
          {"latest_delivered", f.latest_delivered},
          {"activity", FlowJson(f.flow, std::chrono::duration<double>(f.flow_length).count())},
          {"pool", {{"used_bytes", f.pool_used_bytes}, {"capacity_bytes", f.pool_capacity_bytes}}}};
}

json HealthJson(const MemberReport& r, const NameOfNode& name_of) {
  const MemberHealth& h = r.health;
  json health = {{"age_seconds", std::chrono::duration<double>(r.age).count()},
                 {"group", h.group},
                 {"rails", h.rails},
                 {"rails_up", h.rails_up},
                 {"numa", NumaName(h.numa)},
                 {"engines", h.engines},
                 {"recent_looked_up", h.recent_looked_up},
                 {"recent_delivered", h.recent_delivered},
                 {"latest_looked_up", h.latest_looked_up},
                 {"latest_delivered", h.latest_delivered},
                 {"pool_used_bytes", h.pool_used_bytes}};
  if (!h.rail_down.empty()) health["rail_down"] = h.rail_down;
  if (h.activity && h.activity->drives.total > 0) {
    health["disks"] = h.activity->drives.total;
    health["disks_on"] = h.activity->drives.on;
  }
  if (h.activity) health["activity"] = ActivityJson(*h.activity, name_of);
  return health;
}

}  // namespace peercache
