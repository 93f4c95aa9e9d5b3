#include "membership/fleet.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace peercache {
namespace {

MemberReport Report(const std::string& id, MemberHealth health) {
  MemberReport report;
  report.id = id;
  report.state = MemberState::kActive;
  report.capacity_bytes = 1000;
  report.health = std::move(health);
  return report;
}

std::vector<std::string> Ids(const std::vector<MemberReport>& reports) {
  std::vector<std::string> ids;
  for (const MemberReport& report : reports) ids.push_back(report.id);
  return ids;
}

TEST(Fleet, AddsUpWhatMembersSay) {
  using enum NumaHealth;
  std::vector<MemberReport> reports = {
      Report("a", {"numa0", 4, 4, "", kAligned, 2, 100, 80, 10, 20, 15}),
      Report("b", {"numa0", 4, 3, "mlx5_1 port 1", kThreadsElsewhere, 0, 0, 0, 20}),
      Report("c", {"numa1", 2, 0, "mlx5_8 port 1", kMemoryElsewhere, 1, 50, 10, 30, 5, 1}),
      Report("d", {"storage", 0, 0, "", kNotApplicable, 0, 0, 0, 40}),
      Report("e", {}),
  };
  reports[3].state = MemberState::kDraining;
  const FleetSummary fleet = SummariseFleet(reports);
  EXPECT_EQ(fleet.members, 5u);
  EXPECT_EQ(fleet.in_state, (std::array<size_t, 3>{0, 4, 1}));
  EXPECT_EQ(fleet.in_numa, (std::array<size_t, 5>{1, 1, 1, 1, 1}));
  EXPECT_EQ(fleet.misplaced_members(), 2u);
  EXPECT_EQ(Ids(fleet.misplaced), (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(fleet.rails, 10u);
  EXPECT_EQ(fleet.rails_up, 7u);
  EXPECT_EQ(fleet.with_rails_down, 2u);
  EXPECT_EQ(Ids(fleet.rails_down), (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(fleet.rails_down[0].health.rail_down, "mlx5_1 port 1");
  EXPECT_EQ(fleet.engines, 3u);
  EXPECT_EQ(fleet.recent_looked_up, 150u);
  EXPECT_EQ(fleet.recent_delivered, 90u);
  EXPECT_EQ(fleet.latest_looked_up, 25u);
  EXPECT_EQ(fleet.latest_delivered, 16u);
  EXPECT_EQ(fleet.pool_used_bytes, 100u);
  EXPECT_EQ(fleet.pool_capacity_bytes, 5000u);
  ASSERT_EQ(fleet.groups.size(), 4u);
  EXPECT_EQ(fleet.groups[1].name, "numa0");
  EXPECT_EQ(fleet.groups[1].members, 2u);
  EXPECT_EQ(fleet.groups[1].rails, 8u);
  EXPECT_EQ(fleet.groups[1].rails_up, 7u);
}

TEST(Fleet, AddsUpWhatMembersDid) {
  std::vector<MemberReport> reports = {Report("a", {}), Report("b", {}), Report("c", {})};
  reports[0].health.activity.emplace().milliseconds = 9000;
  reports[0].health.activity->flow.read_bytes = 100;
  reports[2].health.activity.emplace().milliseconds = 10'000;
  reports[2].health.activity->flow.read_bytes = 50;
  const FleetSummary fleet = SummariseFleet(reports);
  EXPECT_EQ(fleet.flow.read_bytes, 150u);
  EXPECT_EQ(fleet.flow_length, milliseconds(10'000));
}

TEST(Fleet, SumsUpWhatMayBeWrittenToDrives) {
  std::vector<MemberReport> reports = {Report("a", {}), Report("b", {}), Report("c", {})};
  reports[0].health.activity.emplace().drives = {2, 2, 0, 10, 100, 500, 200, ""};
  reports[1].health.activity.emplace().drives = {1, 0, 0, 0, 0, 500, 0, "/disks/nvme0"};
  reports[2].health.activity.emplace().drives = {1, 1, 0, 5, 50, 0, 0, ""};
  const FleetSummary fleet = SummariseFleet(reports);
  EXPECT_EQ(fleet.drives, 4u);
  EXPECT_EQ(fleet.drives_used_bytes, 15u);
  EXPECT_EQ(fleet.drives_budget_bytes, 1000u) << "one writes without limit";
  EXPECT_EQ(fleet.drives_budget_left_bytes, 200u);
}

TEST(Fleet, IsSmallHoweverManyMembersAreBroken) {
  std::vector<MemberReport> reports;
  for (int i = 0; i < 4096; ++i) {
    MemberHealth broken;
    broken.group = fmt::format("group{:04}", i);
    broken.rails = 8;
    broken.numa = NumaHealth::kMemoryElsewhere;
    broken.recent_looked_up = broken.recent_delivered = broken.pool_used_bytes = UINT64_MAX;
    reports.push_back(Report(fmt::format("node{:04}", i), broken));
  }
  const FleetSummary fleet = SummariseFleet(reports);
  EXPECT_EQ(fleet.with_rails_down, 4096u);
  EXPECT_EQ(fleet.misplaced_members(), 4096u);
  EXPECT_EQ(fleet.rails_down.size(), FleetSummary::kMostNamed);
  EXPECT_EQ(fleet.misplaced.size(), FleetSummary::kMostNamed);
  EXPECT_EQ(fleet.groups.size(), FleetSummary::kMostGroups);
  EXPECT_EQ(fleet.rails, 4096u * 8) << "also those of groups that are not shown";
  EXPECT_EQ(fleet.recent_looked_up, UINT64_MAX) << "it does not wrap round";
  EXPECT_EQ(fleet.recent_delivered, UINT64_MAX);
  EXPECT_EQ(fleet.pool_used_bytes, UINT64_MAX);
}

TEST(Fleet, NobodyIsAFleetToo) {
  const FleetSummary fleet = SummariseFleet({});
  EXPECT_EQ(fleet.members, 0u);
  EXPECT_TRUE(fleet.groups.empty());
}

}  // namespace
}  // namespace peercache
