#include "membership/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "membership/membership_testing.h"

namespace peercache {
namespace {

using testing::MemberOf;
using testing::MembershipScript;
using testing::RunTranscript;

std::shared_ptr<const View> Build(const std::shared_ptr<const View>& before,
                                  const std::vector<Member>& members, int64_t now_ms = 0) {
  KnownMembers known;
  for (const Member& member : members) known[member.id] = {member, TimePoint()};
  return BuildView(before, known, {}, TimePoint() + milliseconds(now_ms));
}

Key KeyOf(uint64_t n) {
  Key key;
  const uint64_t word = (n + 1) * 0x9e3779b97f4a7c15;
  std::memcpy(key.bytes.data(), &word, sizeof(word));
  return key;
}

constexpr auto kJ = MemberState::kJoining, kA = MemberState::kActive, kD = MemberState::kDraining;

TEST(View, Script) { RunTranscript<MembershipScript>("membership/view_test.txt"); }
TEST(Merge, Script) { RunTranscript<MembershipScript>("membership/merge_test.txt"); }
TEST(Unreachable, Script) { RunTranscript<MembershipScript>("membership/unreachable_test.txt"); }

TEST(View, FindsMembers) {
  const auto view = Build(nullptr, {MemberOf("a"), MemberOf("j:joining")});
  EXPECT_EQ(view->Find(NodeHash("a"))->id, "a");
  EXPECT_TRUE(view->HasMember(NodeHash("j")));
  EXPECT_EQ(view->Find(NodeHash("x")), nullptr);
}

// Lists in heartbeats are bounded; all members work on the same changes first.
TEST(PendingChanges, AreTheSmallestOfMany) {
  KnownMembers known;
  std::vector<uint64_t> tokens;
  for (size_t i = 0; i < kMostListed + 36; ++i) {
    const Member member = MemberOf(fmt::format("n{}:joining", i));
    known[member.id] = {member, TimePoint()};
    tokens.push_back(SyncToken(member));
  }
  std::ranges::sort(tokens);
  tokens.resize(kMostListed);
  EXPECT_EQ(PendingChanges(*BuildView(nullptr, known, {.vnodes = 1}, TimePoint())), tokens);
}

// ---- a change of the membership costs no hit ----------------------------------------------------

// Where an owner with this view publishes, and where a reader with this view asks, in order.
std::set<uint64_t> PublishedTo(const View& view, const Key& key) {
  return {view.current.OwnerOf(key), view.next.OwnerOf(key)};
}
bool Finds(const View& view, const Key& key, const std::set<uint64_t>& published,
           uint64_t dead = 0) {
  for (const Ring* ring : {&view.current, &view.next, &view.previous}) {
    const uint64_t node = ring->OwnerOf(key);
    if (node != 0 && node != dead && published.contains(node)) return true;
  }
  return false;
}

class RandomMembership {
 public:
  explicit RandomMembership(uint64_t seed) : rng_(seed) {
    for (int i = 0; i < 4; ++i) Add(kA);
  }
  const std::vector<Member>& members() const { return members_; }
  // One step of one member along joining -> active -> draining -> gone; at least one stays active,
  // for with none the rings are those of a cold start.
  void Step() {
    for (;;) {
      if (members_.size() < 9 && rng_() % 3 == 0) return Add(kJ);
      const size_t i = rng_() % members_.size();
      if (members_[i].state == kA && Active() == 1) continue;
      if (members_[i].state == kD) {
        members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        members_[i].state = members_[i].state == kJ ? kA : kD;
      }
      return;
    }
  }

 private:
  void Add(MemberState state) {
    members_.push_back(MemberOf(fmt::format("node{}", count_++)));
    members_.back().state = state;
    members_.back().capacity_bytes = (1 + rng_() % 4) << 30;
  }
  int64_t Active() const {
    return std::count_if(members_.begin(), members_.end(),
                         [](const Member& m) { return m.state == kA; });
  }
  std::mt19937_64 rng_;
  int count_ = 0;
  std::vector<Member> members_;
};

TEST(ViewChange, AnOwnerAndAReaderOneChangeApartAlwaysMeet) {
  int changes_of_current = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    RandomMembership membership(seed);
    auto before = Build(nullptr, membership.members());
    for (int step = 0; step < 30; ++step) {
      membership.Step();
      const auto after = Build(before, membership.members(), step);
      // A reader that has only now started with the new view knows no previous ring.
      const auto fresh = Build(nullptr, membership.members());
      changes_of_current += after->current == before->current ? 0 : 1;
      for (uint64_t n = 0; n < 300; ++n) {
        const Key key = KeyOf(n);
        const auto old_way = PublishedTo(*before, key), new_way = PublishedTo(*after, key);
        ASSERT_TRUE(Finds(*after, key, old_way)) << "seed " << seed << " step " << step;
        ASSERT_TRUE(Finds(*fresh, key, old_way)) << "seed " << seed << " step " << step;
        ASSERT_TRUE(Finds(*before, key, new_way)) << "seed " << seed << " step " << step;
        ASSERT_TRUE(Finds(*after, key, new_way));
      }
      before = after;
    }
  }
  EXPECT_GT(changes_of_current, 50);
}

// A joiner that owned its arc at once, without the state joining, would cost hits: the test above
// can fail.
TEST(ViewChange, SkippingTheJoiningStateWouldCostHits) {
  const std::vector<Member> few = {MemberOf("a"), MemberOf("b")};
  std::vector<Member> more = few;
  more.push_back(MemberOf("c"));
  const auto before = Build(nullptr, few), after = Build(before, more);
  int lost = 0;
  for (uint64_t n = 0; n < 300; ++n)
    lost += Finds(*before, KeyOf(n), PublishedTo(*after, KeyOf(n))) ? 0 : 1;
  EXPECT_GT(lost, 30);
}

TEST(ViewChange, ADeathCostsOnlyWhatTheDeadShardHeld) {
  std::vector<Member> members;
  for (int i = 0; i < 5; ++i) members.push_back(MemberOf(fmt::format("n{}", i)));
  const auto before = Build(nullptr, members);
  const uint64_t dead = NodeHash(members.back().id);
  members.pop_back();
  const auto after = Build(before, members);
  for (uint64_t n = 0; n < 1000; ++n) {
    const Key key = KeyOf(n);
    const auto published = PublishedTo(*before, key);
    ASSERT_EQ(Finds(*after, key, published, dead), !published.contains(dead));
    // A member that was only believed dead still serves, through `previous`.
    ASSERT_TRUE(Finds(*after, key, published));
  }
}

TEST(ViewChange, ARestartedMemberMissesNothingThatWasPublishedToItMeanwhile) {
  const std::vector<Member> old = {MemberOf("a"), MemberOf("b"), MemberOf("c")};
  auto restarted = old;
  restarted[2] = MemberOf("c@2:joining");
  const auto before = Build(nullptr, old), after = Build(before, restarted);
  for (uint64_t n = 0; n < 1000; ++n) {
    ASSERT_TRUE(Finds(*after, KeyOf(n), PublishedTo(*before, KeyOf(n))));
    ASSERT_TRUE(Finds(*before, KeyOf(n), PublishedTo(*after, KeyOf(n))));
  }
}

}  // namespace
}  // namespace peercache
