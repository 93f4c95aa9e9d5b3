#include <gtest/gtest.h>

#include "membership/view.h"

namespace peercache {
namespace {

constexpr Duration kTtl = milliseconds(3000);

TimePoint At(int64_t ms) { return TimePoint(milliseconds(1'000'000 + ms)); }

ListedMember Listed(const std::string& id, int64_t age_ms, uint64_t incarnation = 1,
                    MemberState state = MemberState::kActive, uint16_t port = 1) {
  ListedMember listed;
  listed.member.id = id;
  listed.member.incarnation = incarnation;
  listed.member.state = state;
  listed.member.peer_port = port;
  listed.age = milliseconds(age_ms);
  return listed;
}

class MergeTest : public testing::Test {
 protected:
  void Merge(std::vector<MemberList> answers, int64_t now_ms) {
    MergeLists(answers, kTtl, At(now_ms), &known_);
  }
  KnownMembers known_;
};

TEST_F(MergeTest, TheYoungestEvidenceOfAllHostsWins) {
  Merge({{false, {Listed("a", 2000, 1, MemberState::kActive, 7)}},
         {false, {Listed("a", 100, 1, MemberState::kActive, 8)}},
         {false, {Listed("a", 900, 1, MemberState::kActive, 9)}}},
        0);
  EXPECT_EQ(known_.at("a").member.peer_port, 8);
  EXPECT_EQ(known_.at("a").heard, At(-100));
}

TEST_F(MergeTest, ANewerIncarnationWinsHoweverOldItsEvidenceAndGhostsAreIgnored) {
  Merge({{false, {Listed("a", 0, 4)}}, {false, {Listed("a", 2500, 5)}}}, 0);
  EXPECT_EQ(known_.at("a").member.incarnation, 5u);
  Merge({{false, {Listed("a", 0, 4)}}}, 100);
  EXPECT_EQ(known_.at("a").member.incarnation, 5u);
  EXPECT_EQ(known_.at("a").heard, At(-2500)) << "a ghost is no evidence of its successor";
}

TEST_F(MergeTest, AStateNeverGoesBackWithinAnIncarnation) {
  Merge({{false, {Listed("a", 500, 1, MemberState::kDraining)}}}, 0);
  Merge({{false, {Listed("a", 0, 1, MemberState::kActive)}}}, 0);
  EXPECT_EQ(known_.at("a").member.state, MemberState::kDraining);
  EXPECT_EQ(known_.at("a").heard, At(0));
  Merge({{false, {Listed("a", 0, 2, MemberState::kJoining)}}}, 10);
  EXPECT_EQ(known_.at("a").member.state, MemberState::kJoining);
}

TEST_F(MergeTest, TheSilentAreDroppedAfterTheTtl) {
  Merge({{false, {Listed("a", 0), Listed("b", 0)}}}, 0);
  Merge({{false, {Listed("b", 0)}}}, 3000);
  EXPECT_TRUE(known_.contains("a"));
  Merge({{false, {Listed("b", 0)}}}, 3001);
  EXPECT_FALSE(known_.contains("a"));
  EXPECT_TRUE(known_.contains("b"));
}

TEST_F(MergeTest, NobodyIsDroppedWhileNoHostThatKnowsAllAnswers) {
  Merge({{false, {Listed("a", 0), Listed("d", 0, 1, MemberState::kDraining)}}}, 0);
  Merge({}, 100'000);
  EXPECT_EQ(known_.size(), 2u);
  Merge({{true, {}}, {true, {Listed("c", 10)}}}, 200'000);
  EXPECT_EQ(known_.size(), 3u) << "a warming host adds";
  Merge({{true, {}}, {false, {Listed("c", 10)}}}, 200'000);
  EXPECT_EQ(known_.size(), 1u);
}

TEST_F(MergeTest, ALeaverGoesAtOnceWhenEveryHostOmitsIt) {
  Merge({{false, {Listed("a", 0, 1, MemberState::kDraining), Listed("b", 0)}}}, 0);
  // One host has not heard of the leave yet.
  Merge({{false, {Listed("b", 0)}}, {false, {Listed("a", 50, 1, MemberState::kDraining)}}}, 100);
  EXPECT_TRUE(known_.contains("a"));
  Merge({{false, {Listed("b", 0)}}, {false, {Listed("b", 0)}}}, 200);
  EXPECT_FALSE(known_.contains("a"));
  // An active member that one poll omits stays until its ttl.
  Merge({{false, {}}}, 300);
  EXPECT_TRUE(known_.contains("b"));
}

TEST_F(MergeTest, EvidenceOlderThanTheTtlIsNone) {
  Merge({{false, {Listed("a", 3001), Listed("", 0)}}}, 0);
  EXPECT_TRUE(known_.empty());
}

}  // namespace
}  // namespace peercache
