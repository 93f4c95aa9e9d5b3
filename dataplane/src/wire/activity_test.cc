#include "wire/activity.h"

#include <gtest/gtest.h>

#include "wire/heartbeat.h"

namespace peercache {
namespace {

Activity Some() {
  Activity activity;
  activity.milliseconds = 10'000;
  activity.machine = 7;
  activity.flow.looked_up = 100;
  activity.flow.delivered = {0, 60, 0, 20};
  activity.flow.missed = {5};
  activity.flow.read_bytes = 1 << 20;
  activity.flow.gets[3] = 9;
  activity.sources = {{42, 900}, {43, 100}};
  activity.rails = {{"mlx5_0:1", true, 1000}, {"mlx5_1:1", false, 0}};
  activity.drives = {3, 2, 1, 100, 1000, 500, 200, "/data/nvme1"};
  return activity;
}

std::vector<std::byte> BytesOf(const Activity& activity) {
  FrameWriter w;
  w.Start(MessageType::kHeartbeat, 1);
  activity.Encode(&w);
  const auto frame = w.Finish();
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

bool Decodes(const std::vector<std::byte>& bytes, Activity* activity) {
  FrameReader r(bytes);
  return activity->Decode(&r) && r.AtEnd();
}

TEST(Activity, WhatIsSaidIsHeard) {
  Activity heard;
  ASSERT_TRUE(Decodes(BytesOf(Some()), &heard));
  EXPECT_EQ(heard, Some());
}

TEST(Activity, AnythingShorterOrLongerIsNone) {
  auto bytes = BytesOf(Some());
  Activity heard;
  Activity older = Some();
  older.drives = {};
  const size_t without = BytesOf(older).size();  // as an older release says it
  for (size_t n = 0; n < bytes.size(); n += n + 1 == without ? 2 : 1)
    EXPECT_FALSE(Decodes({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)}, &heard))
        << n;
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(Decodes(bytes, &heard));
}

TEST(Activity, IsSmallWhateverTheNodeDoes) {
  Activity all = Some(), heard;
  all.flow.delivered.fill(UINT64_MAX);
  all.flow.missed.fill(UINT64_MAX);
  all.flow.gets.fill(UINT64_MAX);
  all.flow.sets.fill(UINT64_MAX);
  all.sources.resize(4096, {1, 1});
  all.rails.resize(32, {std::string(1000, 'r'), true, 1});
  all.drives.off = std::string(1000, 'd');
  EXPECT_LT(BytesOf(all).size(), 2048u);
  ASSERT_TRUE(Decodes(BytesOf(all), &heard));
  EXPECT_EQ(heard.sources.size(), Activity::kMostSources);
  EXPECT_EQ(heard.rails.size(), Activity::kMostRails);
  EXPECT_EQ(heard.rails.back().name.size(), kMaxRailNameBytes);
}

TEST(Activity, WhatCannotBeIsRefused) {
  Activity none = Some(), long_one = Some(), heard;
  none.milliseconds = 0;
  EXPECT_FALSE(Decodes(BytesOf(none), &heard)) << "nobody could divide by it";
  long_one.milliseconds = Activity::kLongestMilliseconds + 1;
  EXPECT_FALSE(Decodes(BytesOf(long_one), &heard));
  // Behind the two lengths and five numbers stand the places for tiers.
  constexpr size_t kTiers = 4 + 4 + 5 * 8;
  auto many = BytesOf(Some());
  many[kTiers] = std::byte{Flow::kMostTiers + 1};
  EXPECT_FALSE(Decodes(many, &heard)) << "more tiers than there are places";
}

TEST(Activity, MoreIsNotLeftThanADayHas) {
  Activity more = Some(), heard;
  more.drives.budget_left_bytes = more.drives.budget_bytes + 1;
  EXPECT_FALSE(Decodes(BytesOf(more), &heard));
}

TEST(Flow, SumsStayAtTheLargestNumber) {
  Flow sum = Some().flow;
  Flow most;
  most.looked_up = UINT64_MAX;
  most.delivered.fill(UINT64_MAX);
  sum.Add(most);
  sum.Add(Some().flow);
  EXPECT_EQ(sum.looked_up, UINT64_MAX);
  EXPECT_EQ(sum.delivered_pages(), UINT64_MAX);
  EXPECT_EQ(sum.missed[0], 10u);
  EXPECT_EQ(sum.gets[3], 18u);
}

}  // namespace
}  // namespace peercache
