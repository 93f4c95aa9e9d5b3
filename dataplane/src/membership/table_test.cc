#include "membership/table.h"

#include <gtest/gtest.h>

#include "membership/membership_testing.h"

namespace peercache {
namespace {

using testing::MemberOf;
using testing::MembershipScript;
using testing::RunTranscript;

TimePoint At(int64_t ms) { return TimePoint(milliseconds(1'000'000 + ms)); }

TEST(Table, Script) { RunTranscript<MembershipScript>("membership/table_test.txt"); }

// Not every heartbeat says what the member did.
TEST(Table, KeepsWhatAMemberDidUntilItSaysMoreOrStartsAnew) {
  Table table({}, At(0));
  const auto activity = [&] { return table.Reports(At(1000)).front().health.activity; };
  MemberHealth health;
  Member a = MemberOf("a");
  health.activity.emplace().milliseconds = 10'000;
  ASSERT_TRUE(table.Heartbeat(a, At(0), health).ok());
  ASSERT_TRUE(table.Heartbeat(a, At(500)).ok());
  EXPECT_EQ(activity(), health.activity);
  health.activity->flow.looked_up = 5;
  ASSERT_TRUE(table.Heartbeat(a, At(900), health).ok());
  EXPECT_EQ(activity(), health.activity);
  ++a.incarnation;
  ASSERT_TRUE(table.Heartbeat(a, At(1000)).ok());
  EXPECT_FALSE(activity());
}

TEST(Table, KeepsHowMembersAreToItself) {
  Table table({}, At(0));
  MemberHealth health;
  health.group = "numa0";
  health.rails = 8;
  health.rails_up = 7;
  Member b = MemberOf("b");
  b.capacity_bytes = 1000;
  ASSERT_TRUE(table.Heartbeat(b, At(0), {}).ok());
  ASSERT_TRUE(table.Heartbeat(MemberOf("a"), At(900)).ok());
  ASSERT_TRUE(table.Heartbeat(b, At(1000), health).ok());
  const auto reports = table.Reports(At(2000));
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].id, "a");
  EXPECT_EQ(reports[1].id, "b");
  EXPECT_EQ(reports[1].health, health) << "the latest word counts";
  EXPECT_EQ(reports[1].capacity_bytes, 1000u);
  EXPECT_EQ(reports[1].age, milliseconds(1000));
  table.Leave("b", 1);
  EXPECT_EQ(table.Reports(At(2000)).size(), 1u);
  EXPECT_TRUE(table.Reports(At(4000)).empty()) << "after the ttl";
  const auto bytes_told = [&](const MemberHealth& of_c) {
    EXPECT_TRUE(table.Heartbeat(MemberOf("c"), At(5000), of_c).ok());
    FrameWriter frame;
    frame.Start(MessageType::kHeartbeatOk, 1);
    ToWire(table.List(At(5000))).Encode(&frame);
    return frame.Finish().size();
  };
  EXPECT_EQ(bytes_told({}), bytes_told(health)) << "members are not told";
}

}  // namespace
}  // namespace peercache
