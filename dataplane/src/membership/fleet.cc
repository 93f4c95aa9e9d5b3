#include "membership/fleet.h"

#include <algorithm>
#include <map>

namespace peercache {
namespace {

void Add(uint64_t n, uint64_t* sum) {
  if (__builtin_add_overflow(*sum, n, sum)) *sum = UINT64_MAX;
}

void Name(const MemberReport& report, std::vector<MemberReport>* list) {
  if (list->size() < FleetSummary::kMostNamed) list->push_back(report);
}

}  // namespace

size_t FleetSummary::misplaced_members() const {
  return in_numa[static_cast<size_t>(NumaHealth::kThreadsElsewhere)] +
         in_numa[static_cast<size_t>(NumaHealth::kMemoryElsewhere)];
}

FleetSummary SummariseFleet(std::span<const MemberReport> reports) {
  FleetSummary fleet;
  std::map<std::string, FleetGroup> groups;
  fleet.members = reports.size();
  for (const MemberReport& report : reports) {
    const MemberHealth& health = report.health;
    ++fleet.in_state[static_cast<size_t>(report.state)];
    ++fleet.in_numa[static_cast<size_t>(health.numa)];
    fleet.rails += health.rails;
    fleet.rails_up += health.rails_up;
    if (health.rails_up < health.rails) {
      ++fleet.with_rails_down;
      Name(report, &fleet.rails_down);
    }
    if (health.numa == NumaHealth::kThreadsElsewhere || health.numa == NumaHealth::kMemoryElsewhere)
      Name(report, &fleet.misplaced);
    FleetGroup& group = groups[health.group];
    ++group.members;
    group.rails += health.rails;
    group.rails_up += health.rails_up;
    Add(health.engines, &fleet.engines);
    Add(health.recent_looked_up, &fleet.recent_looked_up);
    Add(health.recent_delivered, &fleet.recent_delivered);
    Add(health.latest_looked_up, &fleet.latest_looked_up);
    Add(health.latest_delivered, &fleet.latest_delivered);
    Add(health.pool_used_bytes, &fleet.pool_used_bytes);
    Add(report.capacity_bytes, &fleet.pool_capacity_bytes);
    if (!health.activity) continue;
    const Activity::Drives& drives = health.activity->drives;
    fleet.drives += drives.total;
    fleet.drives_on += drives.on;
    fleet.drives_recovering += drives.recovering;
    Add(drives.used_bytes, &fleet.drives_used_bytes);
    Add(drives.capacity_bytes, &fleet.drives_capacity_bytes);
    Add(drives.budget_bytes, &fleet.drives_budget_bytes);
    Add(drives.budget_left_bytes, &fleet.drives_budget_left_bytes);
    if (drives.on < drives.total) {
      ++fleet.with_drives_off;
      Name(report, &fleet.drives_off);
    }
    fleet.flow.Add(health.activity->flow);
    fleet.flow_length = std::max(fleet.flow_length, milliseconds(health.activity->milliseconds));
  }
  for (auto& [name, group] : groups) {
    if (fleet.groups.size() == FleetSummary::kMostGroups) break;
    group.name = name;
    fleet.groups.push_back(std::move(group));
  }
  return fleet;
}

}  // namespace peercache
