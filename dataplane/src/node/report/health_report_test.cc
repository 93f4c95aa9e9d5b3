#include "node/report/health_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "node/integration/node_testing.h"
#include "node/report/fleet_json.h"

namespace peercache {
namespace {

using testing::Eventually;
using testing::TestCluster;
using testing::TestEngine;

NumaStats Placed(int node, std::vector<int> cpus, NumaMemory memory, NumaSample sample) {
  NumaStats numa;
  numa.wish.node = node;
  numa.cpus = std::move(cpus);
  numa.memory.memory = memory;
  numa.pool = sample;
  return numa;
}

TEST(HealthReport, NumaIsJudgedByThreadsThenByPages) {
  const auto from = NumaSource::kMovePages;
  const NumaSample unknown{}, near{60, 0, 4, from}, far{60, 1, 3, from}, untouched{0, 0, 64, from},
      refused{0, 0, 0, NumaSource::kRefused}, summed{60, 4, 0, NumaSource::kNumaMaps};
  struct {
    NumaStats numa;
    NumaHealth health;
  } const cases[] = {
      {Placed(-1, {}, NumaMemory::kAnywhere, unknown), NumaHealth::kNotApplicable},
      {Placed(0, {}, NumaMemory::kBound, near), NumaHealth::kThreadsElsewhere},
      {Placed(0, {0, 1}, NumaMemory::kPreferred, far), NumaHealth::kMemoryElsewhere},
      {Placed(1, {2, 3}, NumaMemory::kFirstTouch, near), NumaHealth::kAligned},
      {Placed(0, {0}, NumaMemory::kPreferred, untouched), NumaHealth::kAligned},
      {Placed(0, {0}, NumaMemory::kBound, unknown), NumaHealth::kAligned},
      {Placed(0, {0}, NumaMemory::kPreferred, unknown), NumaHealth::kUnknown},
      {Placed(0, {0}, NumaMemory::kFirstTouch, refused), NumaHealth::kUnknown},
      {Placed(0, {0}, NumaMemory::kFirstTouch, summed), NumaHealth::kMemoryElsewhere},
  };
  for (size_t i = 0; i < std::size(cases); ++i)
    EXPECT_EQ(JudgeNuma(cases[i].numa), cases[i].health) << i;
}

TimePoint At(int64_t s) { return TimePoint(std::chrono::seconds(1'000 + s)); }

TEST(RecentLookups, CountsTheLastMinuteAlone) {
  RecentLookups recent(std::chrono::seconds(60), std::chrono::seconds(10));
  EXPECT_EQ(recent.Note(At(0), 500, 100).looked_up, 0u) << "what was before the first look is old";
  // 10 pages a second, of which 4 are found for the first minutes and 9 later.
  RecentLookups::Gain gain;
  uint64_t reads = 500, hits = 100;
  for (int second = 1; second <= 300; ++second) {
    reads += 10;
    hits += second <= 120 ? 4 : 9;
    gain = recent.Note(At(second), reads, hits);
    EXPECT_LE(gain.looked_up, 700u) << second;
    if (second >= 60) {
      EXPECT_GE(gain.looked_up, 600u) << second;
    }
    if (second == 120) {
      EXPECT_EQ(gain.delivered * 10, gain.looked_up * 4);
    }
  }
  EXPECT_EQ(gain.delivered * 10, gain.looked_up * 9);
  // Nobody reads any more.
  for (int second = 301; second <= 371; ++second) gain = recent.Note(At(second), reads, hits);
  EXPECT_EQ(gain.looked_up, 0u);
}

// What gates an update asks for: nothing is found any more, and five seconds later nothing else is
// said.
TEST(RecentLookups, OfAShortWindowFallAsSoon) {
  RecentLookups latest(std::chrono::seconds(4), std::chrono::seconds(1));
  RecentLookups::Gain gain;
  uint64_t looked_up = 0, delivered = 0;
  for (int half = 0; half <= 120; ++half) {  // as heartbeats come
    const bool emptied = half > 100;
    looked_up += 50;
    delivered += emptied ? 0 : 45;
    gain = latest.Note(At(0) + milliseconds(half * 500), looked_up, delivered);
    EXPECT_LE(gain.looked_up, 500u) << half;
    if (half > 8 && !emptied) {
      EXPECT_EQ(gain.delivered * 10, gain.looked_up * 9) << half;
    }
    if (half >= 110) {
      EXPECT_EQ(gain.delivered, 0u) << half;
    }
  }
}

TEST(RecentLookups, NeverDeliverMoreThanIsLookedUp) {
  RecentLookups recent(std::chrono::seconds(60), std::chrono::seconds(10));
  (void)recent.Note(At(0), 0, 0);
  const auto gain = recent.Note(At(1), 5, 6);
  EXPECT_EQ(gain.looked_up, 5u);
  EXPECT_EQ(gain.delivered, 5u);
}

nlohmann::json StatusOf(const Node& node) { return nlohmann::json::parse(node.StatusJson()); }

TEST(HealthReport, ADiscoveryHostKnowsHowItsMembersAre) {
  constexpr size_t kPage = 8192;
  TestCluster cluster;
  auto host = cluster.Start("a"), other = cluster.Start("b");
  TestEngine writer(host->socket(), 16, kPage), reader(other->socket(), 16, kPage);
  ASSERT_TRUE(Eventually(std::chrono::seconds(10), [&] { return writer.Set(0, 12) == 12; }));
  ASSERT_TRUE(Eventually(std::chrono::seconds(10), [&] { return reader.Get(0, 16).hits == 12; }));
  const size_t asked = StatusOf(*other)["counters"]["read_requests"];
  // What each says may be of a moment in between: asked, but not found yet.
  nlohmann::json status;
  ASSERT_TRUE(Eventually(std::chrono::seconds(10), [&] {
    status = StatusOf(*host);
    const auto& heard = status["fleet"];
    return heard["recent_looked_up"] == asked && heard["recent_delivered"] >= 12 &&
           heard["engines"] == 2 && heard["pool"]["used_bytes"] > 0 &&
           heard["states"]["active"] == 2;
  })) << status.dump(2);

  const auto& fleet = status["fleet"];
  EXPECT_EQ(fleet["members"], 2);
  EXPECT_EQ(fleet["rails"]["total"], 0);
  EXPECT_EQ(fleet["numa"]["not_applicable"], 2);
  EXPECT_GE(fleet["pool"]["capacity_bytes"], 2 * fleet["pool"]["used_bytes"].get<int64_t>());
  ASSERT_EQ(status["members"].size(), 2u);
  const auto& health = status["members"][1]["health"];
  EXPECT_EQ(health["group"], "default");
  EXPECT_EQ(health["engines"], 1);
  EXPECT_EQ(health["recent_looked_up"], asked);
  EXPECT_EQ(health["numa"], "not_applicable");
  const auto elsewhere = StatusOf(*other);
  EXPECT_FALSE(elsewhere.contains("fleet")) << "it hosts no discovery";
  EXPECT_FALSE(elsewhere["members"][0].contains("health"));
}

TEST(HealthReport, ADiscoveryHostKnowsWhoReadsFromWhom) {
  constexpr size_t kPage = 8192;
  TestCluster cluster;
  auto host = cluster.Start("a"), other = cluster.Start("b");
  TestEngine writer(host->socket(), 4, kPage), reader(other->socket(), 4, kPage);
  ASSERT_TRUE(Eventually(std::chrono::seconds(10), [&] { return writer.Set(0, 4) == 4; }));
  // The reading goes on: what was read before the first look is not news.
  nlohmann::json activity;
  ASSERT_TRUE(Eventually(std::chrono::seconds(20), [&] {
    (void)reader.Get(0, 4);
    auto status = StatusOf(*host);
    if (status["members"].size() < 2) return false;
    activity = status["members"][1]["health"]["activity"];
    return activity.is_object() && !activity["reads_from"].empty();
  })) << activity.dump(2);
  EXPECT_EQ(activity["reads_from"][0]["id"], "a");
  EXPECT_GT(activity["reads_from"][0]["bytes_per_second"], 0);
  EXPECT_GT(activity["read_bytes_per_second"], 0);
}

TEST(FleetJson, NamesWhoNeedsAttention) {
  MemberReport report;
  report.id = "gpu-7.numa0";
  report.health = {"numa0", 8, 7, "mlx5_3 port 1", NumaHealth::kMemoryElsewhere, 0, 10, 9, 0, 5, 4};
  const auto fleet = FleetJson(SummariseFleet(std::span(&report, 1)), true);
  EXPECT_EQ(fleet["warming"], true);
  EXPECT_EQ(fleet["recent_looked_up"], 10);
  EXPECT_EQ(fleet["recent_delivered"], 9);
  EXPECT_EQ(fleet["latest_looked_up"], 5);
  EXPECT_EQ(fleet["latest_delivered"], 4);
  EXPECT_EQ(fleet["rails"]["up"], 7);
  EXPECT_EQ(fleet["rails"]["members_with_some_down"], 1);
  const auto& down = fleet["rails"]["first_down"];
  ASSERT_EQ(down.size(), 1u);
  EXPECT_EQ(down[0]["id"], "gpu-7.numa0");
  EXPECT_EQ(down[0]["rail"], "mlx5_3 port 1");
  EXPECT_EQ(down[0]["rails"], 8);
  EXPECT_EQ(down[0]["rails_up"], 7);
  const auto& misplaced = fleet["numa"]["first_misplaced"];
  ASSERT_EQ(misplaced.size(), 1u);
  EXPECT_EQ(misplaced[0]["id"], "gpu-7.numa0");
  EXPECT_EQ(misplaced[0]["what"], "memory_elsewhere");
  EXPECT_EQ(fleet["groups"][0]["name"], "numa0");
  EXPECT_EQ(fleet["groups"][0]["rails_up"], 7);
}

}  // namespace
}  // namespace peercache
