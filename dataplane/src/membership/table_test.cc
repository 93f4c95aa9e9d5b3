#include "membership/table.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

TimePoint At(int64_t ms) { return TimePoint(milliseconds(1'000'000 + ms)); }

Member MakeMember(const std::string& id, uint64_t incarnation = 1,
                  MemberState state = MemberState::kActive) {
  Member member;
  member.id = id;
  member.incarnation = incarnation;
  member.state = state;
  member.host = "10.0.0.1";
  member.peer_port = 31998;
  return member;
}

std::vector<std::string> Ids(const MemberList& list) {
  std::vector<std::string> ids;
  for (const auto& listed : list.members) ids.push_back(listed.member.id);
  return ids;
}

TEST(Table, ListsWhoeverWasHeardWithinTheTtlWithAges) {
  Table table({}, At(0));
  ASSERT_TRUE(table.Heartbeat(MakeMember("b"), At(0)).ok());
  ASSERT_TRUE(table.Heartbeat(MakeMember("a"), At(1000)).ok());
  const MemberList list = table.List(At(3000));
  EXPECT_EQ(Ids(list), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(list.members[0].age, milliseconds(2000));
  EXPECT_EQ(list.members[1].age, milliseconds(3000));
  EXPECT_EQ(Ids(table.List(At(3001))), (std::vector<std::string>{"a"}));
}

TEST(Table, WarmsUpAfterItsStart) {
  Table table({.warm_up = milliseconds(1500)}, At(0));
  EXPECT_TRUE(table.List(At(1499)).warming);
  EXPECT_FALSE(table.List(At(1500)).warming);
}

TEST(Table, AGhostIsTurnedAwayWhileItsSuccessorLives) {
  Table table({}, At(0));
  ASSERT_TRUE(table.Heartbeat(MakeMember("a", 5), At(0)).ok());
  EXPECT_EQ(table.Heartbeat(MakeMember("a", 4), At(10)).code(), Code::kAborted);
  EXPECT_EQ(table.List(At(10)).members[0].member.incarnation, 5u);
  EXPECT_TRUE(table.Heartbeat(MakeMember("a", 6), At(20)).ok());
  EXPECT_EQ(table.List(At(20)).members[0].member.incarnation, 6u);
  EXPECT_TRUE(table.Heartbeat(MakeMember("a", 4), At(3021)).ok()) << "the successor is dead";
}

TEST(Table, LeavingTakesTheRightIncarnationAndLateHeartbeatsDoNotBringItBack) {
  Table table({}, At(0));
  ASSERT_TRUE(table.Heartbeat(MakeMember("a", 5), At(0)).ok());
  table.Leave("a", 4);
  table.Leave("nobody", 4);
  EXPECT_EQ(Ids(table.List(At(1))), (std::vector<std::string>{"a"}));
  table.Leave("a", 5);
  EXPECT_TRUE(table.List(At(1)).members.empty());
  EXPECT_EQ(table.Heartbeat(MakeMember("a", 5), At(2)).code(), Code::kAborted);
  EXPECT_TRUE(table.List(At(2)).members.empty());
  EXPECT_TRUE(table.Heartbeat(MakeMember("a", 6), At(3)).ok()) << "it started again";
  EXPECT_EQ(Ids(table.List(At(3))), (std::vector<std::string>{"a"}));
}

TEST(Table, AStateNeverGoesBackWithinAnIncarnation) {
  Table table({}, At(0));
  ASSERT_TRUE(table.Heartbeat(MakeMember("a", 1, MemberState::kDraining), At(0)).ok());
  ASSERT_TRUE(table.Heartbeat(MakeMember("a", 1, MemberState::kActive), At(1)).ok());
  EXPECT_EQ(table.List(At(1)).members[0].member.state, MemberState::kDraining);
  ASSERT_TRUE(table.Heartbeat(MakeMember("a", 2, MemberState::kJoining), At(2)).ok());
  EXPECT_EQ(table.List(At(2)).members[0].member.state, MemberState::kJoining);
}

TEST(Table, MalformedMembersAreNamed) {
  Table table({.max_members = 4}, At(0));
  const auto refusal = [&](auto change) {
    Member member = MakeMember("a");
    change(&member);
    const Status status = table.Heartbeat(member, At(0));
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  EXPECT_NE(refusal([](Member* m) { m->id.clear(); }).find("member.id"), std::string::npos);
  EXPECT_NE(refusal([](Member* m) { m->id.assign(129, 'x'); }).find("129"), std::string::npos);
  EXPECT_NE(refusal([](Member* m) { m->host.clear(); }).find("member.host"), std::string::npos);
  EXPECT_NE(refusal([](Member* m) { m->peer_port = 0; }).find("peer_port"), std::string::npos);
  EXPECT_NE(refusal([](Member* m) { m->state = static_cast<MemberState>(9); }).find("member.state"),
            std::string::npos);
  EXPECT_NE(refusal([](Member* m) {
              m->synced = std::vector<uint64_t>(kMostListed + 1);
            }).find("member.synced"),
            std::string::npos);
  EXPECT_NE(refusal([](Member* m) {
              m->unreachable = std::vector<uint64_t>(kMostListed + 1);
            }).find("member.unreachable"),
            std::string::npos);
  EXPECT_TRUE(table.List(At(0)).members.empty());
}

// Not every heartbeat says what the member did.
TEST(Table, KeepsWhatAMemberDidUntilItSaysMoreOrStartsAnew) {
  Table table({}, At(0));
  const auto activity = [&] { return table.Reports(At(1000)).front().health.activity; };
  MemberHealth health;
  Member a = MakeMember("a");
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
  Table table({.warm_up = milliseconds(1500)}, At(0));
  MemberHealth health;
  health.group = "numa0";
  health.rails = 8;
  health.rails_up = 7;
  Member b = MakeMember("b");
  b.capacity_bytes = 1000;
  ASSERT_TRUE(table.Heartbeat(b, At(0), {}).ok());
  ASSERT_TRUE(table.Heartbeat(MakeMember("a"), At(900)).ok());
  ASSERT_TRUE(table.Heartbeat(b, At(1000), health).ok());
  const auto reports = table.Reports(At(2000));
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].id, "a");
  EXPECT_EQ(reports[1].id, "b");
  EXPECT_EQ(reports[1].health, health) << "the latest word counts";
  EXPECT_EQ(reports[1].capacity_bytes, 1000u);
  EXPECT_EQ(reports[1].age, milliseconds(1000));
  EXPECT_TRUE(table.warming(At(1499)));
  EXPECT_FALSE(table.warming(At(1500)));
  table.Leave("b", 1);
  EXPECT_EQ(table.Reports(At(2000)).size(), 1u);
  EXPECT_TRUE(table.Reports(At(4000)).empty()) << "after the ttl";
  FrameWriter with, without;
  with.Start(MessageType::kHeartbeatOk, 1);
  ASSERT_TRUE(table.Heartbeat(MakeMember("c"), At(5000), health).ok());
  ToWire(table.List(At(5000))).Encode(&with);
  Table other({.warm_up = milliseconds(1500)}, At(0));
  ASSERT_TRUE(other.Heartbeat(MakeMember("c"), At(5000)).ok());
  without.Start(MessageType::kHeartbeatOk, 1);
  ToWire(other.List(At(5000))).Encode(&without);
  EXPECT_EQ(with.Finish().size(), without.Finish().size()) << "members are not told";
}

TEST(Table, IsBoundedAndTheDeadMakeRoom) {
  Table table({.max_members = 2}, At(0));
  ASSERT_TRUE(table.Heartbeat(MakeMember("a"), At(0)).ok());
  ASSERT_TRUE(table.Heartbeat(MakeMember("b"), At(2000)).ok());
  EXPECT_EQ(table.Heartbeat(MakeMember("c"), At(3000)).code(), Code::kResourceExhausted);
  EXPECT_TRUE(table.Heartbeat(MakeMember("a"), At(3000)).ok()) << "known members always fit";
  EXPECT_TRUE(table.Heartbeat(MakeMember("c"), At(5500)).ok());
}

}  // namespace
}  // namespace peercache
