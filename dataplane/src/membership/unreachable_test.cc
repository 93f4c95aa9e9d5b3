// Who is in the rings when members cannot reach each other.

#include <gtest/gtest.h>

#include <map>

#include "membership/view.h"

namespace peercache {
namespace {

using Ids = std::vector<std::string>;
using Reports = std::map<std::string, Ids>;  // who does not get answers from whom

constexpr milliseconds kVoting{1500};

TimePoint At(int64_t ms) { return TimePoint(milliseconds(1'000'000 + ms)); }

Member MakeMember(const std::string& id) {
  Member member;
  member.id = id;
  member.incarnation = 1;
  member.state = MemberState::kActive;
  member.host = "10.0.0.1";
  member.peer_port = 31998;
  member.capacity_bytes = uint64_t{1} << 30;
  return member;
}

KnownMembers Known(const Ids& ids, const Reports& reports) {
  KnownMembers known;
  for (const std::string& id : ids) {
    Member member = MakeMember(id);
    if (const auto it = reports.find(id); it != reports.end()) {
      std::vector<uint64_t> nodes;
      for (const std::string& other : it->second) nodes.push_back(NodeHash(other));
      member.unreachable = nodes;
    }
    known[id] = {member, At(0)};
  }
  return known;
}

ViewOptions Options(const std::string& self) {
  ViewOptions options;
  options.voting = kVoting;
  options.self = NodeHash(self);
  return options;
}

Ids InRing(const View& view, const Ring& ring) {
  Ids ids;
  for (const Member& member : view.members) {
    for (const RingMember& in : ring.members()) {
      if (in.node == NodeHash(member.id)) ids.push_back(member.id);
    }
  }
  return ids;
}

Ids RingOf(const Ids& ids, const Reports& reports, const std::string& self) {
  const auto view = BuildView(nullptr, Known(ids, reports), Options(self), At(0));
  EXPECT_EQ(view->members.size(), ids.size()) << "nobody is dropped";
  EXPECT_EQ(InRing(*view, view->next), InRing(*view, view->current));
  return InRing(*view, view->current);
}

TEST(Unreachable, WhomMostOthersDoNotReachIsInNoRing) {
  const Ids all = {"a", "b", "c", "x"};
  for (const std::string& self : all) {
    EXPECT_EQ(RingOf(all, {{"a", {"x"}}, {"b", {"x"}}, {"c", {"x"}}}, self), (Ids{"a", "b", "c"}));
    EXPECT_EQ(RingOf(all, {{"a", {"x"}}, {"b", {"x"}}}, self), (Ids{"a", "b", "c"}));
    EXPECT_EQ(RingOf(all, {{"a", {"x"}}}, self), all) << "one of three";
  }
  EXPECT_EQ(RingOf({"a", "b", "x"}, {{"a", {"x"}}}, "a"), (Ids{"a", "b", "x"})) << "one of two";
  EXPECT_EQ(RingOf({"a", "x"}, {{"a", {"x"}}}, "a"), (Ids{"a"})) << "one of one";
}

// After a freeze or behind a broken cable a member takes everybody else for dead.
TEST(Unreachable, TheWordOfOneMemberDoesNotEmptyTheRing) {
  const Ids all = {"a", "b", "c", "x"};
  const Reports reports = {{"x", {"a", "b", "c"}}, {"a", {"x"}}, {"b", {"x"}}, {"c", {"x"}}};
  for (const std::string& self : all) EXPECT_EQ(RingOf(all, reports, self), (Ids{"a", "b", "c"}));
}

TEST(Unreachable, AMemberDoesNotVoteOnItself) {
  EXPECT_EQ(RingOf({"a", "x"}, {{"x", {"x"}}}, "a"), (Ids{"a", "x"}));
  EXPECT_EQ(RingOf({"a", "b", "x"}, {{"a", {"x"}}, {"x", {"x"}}}, "a"), (Ids{"a", "b", "x"}));
}

TEST(Unreachable, WhoSaysItTwiceHasOneVote) {
  EXPECT_EQ(RingOf({"a", "b", "x"}, {{"a", {"x", "x"}}}, "a"), (Ids{"a", "b", "x"}));
  EXPECT_EQ(RingOf({"a", "x"}, {{"x", {"x", "x"}}}, "a"), (Ids{"a", "x"}));
}

TEST(Unreachable, WhenNobodyReachesMostOthersEachGoesByItsOwnExperience) {
  EXPECT_EQ(RingOf({"a", "x"}, {{"a", {"x"}}, {"x", {"a"}}}, "a"), (Ids{"a"}));
  EXPECT_EQ(RingOf({"a", "x"}, {{"a", {"x"}}, {"x", {"a"}}}, "x"), (Ids{"x"}));
  const Reports halves = {
      {"a", {"c", "d"}}, {"b", {"c", "d"}}, {"c", {"a", "b"}}, {"d", {"a", "b"}}};
  EXPECT_EQ(RingOf({"a", "b", "c", "d"}, halves, "a"), (Ids{"a", "b"}));
  EXPECT_EQ(RingOf({"a", "b", "c", "d"}, halves, "d"), (Ids{"c", "d"}));
}

TEST(Unreachable, ANodeNeverLeavesItsOwnRingForWhatItSaysItself) {
  const Reports reports = {{"a", {"a", "x"}}, {"x", {"a", "x"}}};
  EXPECT_EQ(RingOf({"a", "x"}, reports, "a"), (Ids{"a"}));
}

TEST(Unreachable, WhoHasNotBeenHeardOfDoesNotVote) {
  // The hosts see neither b nor c any more: what they said is old, and a's word is enough.
  auto known = Known({"a", "b", "c", "x"}, {{"a", {"b", "c", "x"}}});
  EXPECT_TRUE(BuildView(nullptr, known, Options("a"), At(0))->unreachable.empty());
  known["a"].heard = At(2000);
  const auto alone = BuildView(nullptr, known, Options("a"), At(2000));
  EXPECT_EQ(InRing(*alone, alone->current), (Ids{"a"}));
  // Nor do reports of former times keep anybody out.
  auto old = Known({"a", "b", "x"}, {{"a", {"x"}}, {"b", {"x"}}});
  EXPECT_FALSE(BuildView(nullptr, old, Options("x"), At(0))->unreachable.empty());
  EXPECT_TRUE(BuildView(nullptr, old, Options("x"), At(2000))->unreachable.empty());
}

TEST(Unreachable, ComingAndGoingChangesRingsOnceEach) {
  const Ids all = {"a", "b", "c", "x"};
  const Reports reports = {{"a", {"x"}}, {"b", {"x"}}};
  const auto before = BuildView(nullptr, Known(all, {}), Options("a"), At(0));
  const auto without = BuildView(before, Known(all, reports), Options("a"), At(0));
  EXPECT_EQ(without->epoch, before->epoch + 1);
  EXPECT_TRUE(without->IsUnreachable(NodeHash("x")));
  EXPECT_EQ(without->previous, before->current);
  // One more report decides nothing new; a report that is outvoted neither.
  const Reports more = {{"a", {"x"}}, {"b", {"x"}}, {"c", {"x"}}, {"x", {"a"}}};
  const auto same = BuildView(without, Known(all, more), Options("a"), At(0));
  EXPECT_EQ(same->epoch, without->epoch);
  const auto back = BuildView(without, Known(all, {{"b", {"x"}}}), Options("a"), At(0));
  EXPECT_EQ(back->epoch, without->epoch + 1);
  EXPECT_EQ(back->current, before->current);
  EXPECT_EQ(back->previous, without->current) << "who comes back has an old shard";
}

TEST(Unreachable, ReportsOnStrangersChangeNothing) {
  const auto view = BuildView(nullptr, Known({"a", "b"}, {}), Options("a"), At(0));
  const auto after =
      BuildView(view, Known({"a", "b"}, {{"a", {"gone"}}, {"b", {"gone"}}}), Options("a"), At(0));
  EXPECT_EQ(after, view);
}

// A joiner does not wait for the preparation of somebody who cannot announce it.
TEST(Unreachable, NobodyWaitsForTheirPreparation) {
  Member joiner = MakeMember("j");
  joiner.state = MemberState::kJoining;
  auto known = Known({"a", "b", "c", "x"}, {{"a", {"x"}}, {"b", {"x"}}, {"c", {"x"}}});
  known["j"] = {joiner, At(0)};
  for (const char* id : {"a", "b", "c"}) known[id].member.synced = {SyncToken(joiner)};
  EXPECT_TRUE(EveryoneSynced(*BuildView(nullptr, known, Options("j"), At(0)), joiner));
  for (auto& [id, item] : known) item.member.unreachable = {};
  EXPECT_FALSE(EveryoneSynced(*BuildView(nullptr, known, Options("j"), At(0)), joiner));
}

// Lists in heartbeats are bounded; all members work on the same changes first.
TEST(PendingChanges, AreTheSmallestOfMany) {
  KnownMembers known;
  for (size_t i = 0; i < kMostListed + 36; ++i) {
    Member member = MakeMember("n" + std::to_string(i));
    member.state = MemberState::kJoining;
    known[member.id] = {member, At(0)};
  }
  ViewOptions options;
  options.vnodes = 1;
  const auto first = PendingChanges(*BuildView(nullptr, known, options, At(0)));
  ASSERT_EQ(first.size(), kMostListed);
  size_t others = 0;
  for (const auto& [id, item] : known) {
    const uint64_t token = SyncToken(item.member);
    const bool listed = std::find(first.begin(), first.end(), token) != first.end();
    if (!listed) {
      ++others;
      EXPECT_GT(token, first.back());
    }
  }
  EXPECT_EQ(others, known.size() - kMostListed);
}

}  // namespace
}  // namespace peercache
