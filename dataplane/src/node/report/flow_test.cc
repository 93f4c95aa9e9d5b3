#include "node/report/flow.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "node/report/activity_window.h"
#include "node/report/history.h"

namespace peercache {
namespace {

using std::chrono::seconds;

TimePoint At(int second) { return TimePoint{} + seconds(1000 + second); }

TEST(Flow, IsWhatTheCountersGained) {
  Counters counters;
  counters.lookup_exists.Add(10, 0);
  const Flow before = FlowOf(counters, 3);
  counters.lookup_exists.Add(100, 0);
  counters.found.Add(80, 0);
  counters.lookup_get.Add(20, 0);
  counters.delivered[static_cast<size_t>(PageSource::kTcp)].Add(70, 0);
  counters.miss_stale.Add(2);
  counters.bytes_remote.Add(7000);
  counters.op_get.Observe(milliseconds(1));
  const Flow gain = Between(before, FlowOf(counters, 5));
  EXPECT_EQ(gain.looked_up, 120u);
  EXPECT_EQ(gain.delivered_pages(), 70u);
  EXPECT_EQ(gain.read_bytes, 7000u);
  EXPECT_EQ(gain.evicted, 2u);
  const nlohmann::json json = FlowJson(gain, 10);
  EXPECT_EQ(json["delivered"]["tcp"], 70);
  EXPECT_FALSE(json["delivered"].contains("nowhere"));
  EXPECT_EQ(json["missed"]["not_found"], 20);
  EXPECT_EQ(json["missed"]["stale"], 2);
  EXPECT_EQ(json["read_bytes_per_second"], 700);
  EXPECT_EQ(json["gets"], 1);
  EXPECT_EQ(json["sets"], 0);
  EXPECT_TRUE(json["set_p99_seconds"].is_null()) << "nobody has set anything";
}

TEST(Flow, QuantilesLieInTheirBucket) {
  LatencyHistogram calls;
  for (int i = 0; i < 98; ++i) calls.Observe(std::chrono::microseconds(30));
  for (int i = 0; i < 2; ++i) calls.Observe(milliseconds(300));
  Flow flow;
  for (size_t b = 0; b < flow.gets.size(); ++b) flow.gets[b] = calls.InBucket(b);
  const double half = QuantileSeconds(flow.gets, 0.5).value();
  EXPECT_GT(half, 20e-6);
  EXPECT_LE(half, 40e-6);
  const double most = QuantileSeconds(flow.gets, 0.99).value();
  EXPECT_GT(most, 0.16);
  EXPECT_LE(most, 0.33);
  EXPECT_FALSE(QuantileSeconds(flow.sets, 0.5));
}

TEST(ActivityWindow, SaysWhatTheLastTenSecondsBrought) {
  ActivityWindow window;
  EXPECT_FALSE(window.Latest(1));
  Totals totals;
  for (int second = 0; second <= 60; ++second) {
    totals.flow.looked_up += second <= 30 ? 100 : 10;
    totals.sources = {{7, static_cast<uint64_t>(second) * 1000}, {8, 5}};
    totals.rails = {{"mlx5_0:1", second < 50, static_cast<uint64_t>(second) * 10}};
    window.Note(At(second), totals);
  }
  const Activity latest = window.Latest(9).value();
  EXPECT_EQ(latest.milliseconds, 10'000u);
  EXPECT_EQ(latest.machine, 9u);
  EXPECT_EQ(latest.flow.looked_up, 100u);
  EXPECT_EQ(latest.sources, (std::vector<Activity::Source>{{7, 10'000}})) << "8 brought nothing";
  EXPECT_EQ(latest.rails, (std::vector<Activity::Rail>{{"mlx5_0:1", false, 100}}));
}

TEST(ActivityWindow, NamesTheBusiestOfManySources) {
  ActivityWindow window;
  Totals totals;
  window.Note(At(0), totals);
  for (uint64_t node = 1; node <= 100; ++node) totals.sources.push_back({node, node});
  window.Note(At(1), totals);
  const Activity latest = window.Latest(0).value();
  ASSERT_EQ(latest.sources.size(), Activity::kMostSources);
  EXPECT_EQ(latest.sources.front().node, 100u);
  EXPECT_EQ(latest.sources.back().node, 93u);
}

TEST(History, KeepsAnHour) {
  History history;
  Flow flow;
  flow.delivered[static_cast<size_t>(PageSource::kLocal)] = 4;
  for (int step = 0; step < 1000; ++step) {
    flow.looked_up = static_cast<uint64_t>(step);
    history.Note(History::Seconds(seconds(step * 10)), seconds(10), flow, 5);
  }
  const nlohmann::json json = history.Json();
  ASSERT_EQ(json["at"].size(), 360u);
  EXPECT_EQ(json["at"].front(), 6400);
  EXPECT_EQ(json["at"].back(), 9990);
  EXPECT_EQ(json["looked_up"].front(), 640);
  EXPECT_EQ(json["sum"]["delivered"]["local"], 4 * 360);
  EXPECT_EQ(json["sum"]["seconds"], 3600);
  for (const auto& [name, column] : json.items()) {
    if (column.is_array()) {
      EXPECT_EQ(column.size(), 360u) << name;
    }
  }
  for (const char* kind : {"delivered", "missed"})
    for (const auto& [name, column] : json[kind].items()) EXPECT_EQ(column.size(), 360u) << name;
}

TEST(History, HasItsColumnsBeforeTheFirstStep) {
  const nlohmann::json json = History().Json();
  EXPECT_TRUE(json["at"].empty());
  EXPECT_TRUE(json["delivered"]["local"].empty());
  EXPECT_TRUE(json["sum"].is_null());
}

}  // namespace
}  // namespace peercache
