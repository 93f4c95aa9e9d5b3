// Fleet: how all members are, summed up by a discovery host out of their heartbeats. Small at any
// number of members: sums, and the first few names of those that need somebody's attention.
//
//   FleetSummary fleet = SummariseFleet(table.Reports(now));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "membership/table.h"

namespace peercache {

struct FleetGroup {
  std::string name;
  size_t members = 0;
  size_t rails = 0, rails_up = 0;
};

struct FleetSummary {
  // Entries of the lists below.
  static constexpr size_t kMostNamed = 8;
  static constexpr size_t kMostGroups = 64;

  size_t members = 0;
  std::array<size_t, 3> in_state{};  // by MemberState
  std::array<size_t, 5> in_numa{};   // by NumaHealth
  size_t rails = 0, rails_up = 0;
  size_t with_rails_down = 0;
  // Drives of members that tell of them.
  size_t drives = 0, drives_on = 0, drives_recovering = 0;
  uint64_t drives_used_bytes = 0, drives_capacity_bytes = 0;
  // Of a day, of members with a limit on what they write.
  uint64_t drives_budget_bytes = 0, drives_budget_left_bytes = 0;
  size_t with_drives_off = 0;
  std::vector<MemberReport> drives_off;  // first by id
  std::vector<MemberReport> rails_down;  // first by id
  std::vector<MemberReport> misplaced;   // first by id: threads or memory elsewhere
  std::vector<FleetGroup> groups;        // first by name
  // Sums that do not fit stay at the largest number.
  uint64_t engines = 0;
  uint64_t recent_looked_up = 0, recent_delivered = 0;
  uint64_t latest_looked_up = 0, latest_delivered = 0;
  uint64_t pool_used_bytes = 0, pool_capacity_bytes = 0;
  // What members that say so did lately, each in about the last `flow_length`.
  Flow flow;
  milliseconds flow_length{1};  // the longest of them

  size_t misplaced_members() const;
};

// Pure. `reports` are sorted by id.
FleetSummary SummariseFleet(std::span<const MemberReport> reports);

}  // namespace peercache
