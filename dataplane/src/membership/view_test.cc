#include "membership/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

namespace peercache {
namespace {

TimePoint At(int64_t ms) { return TimePoint(milliseconds(1'000'000 + ms)); }

Member MakeMember(const std::string& id, MemberState state, uint64_t incarnation = 1) {
  Member member;
  member.id = id;
  member.incarnation = incarnation;
  member.state = state;
  member.host = "10.0.0.1";
  member.peer_port = 31998;
  member.capacity_bytes = uint64_t{1} << 30;
  return member;
}

KnownMembers Known(const std::vector<Member>& members) {
  KnownMembers known;
  for (const Member& member : members) known[member.id] = {member, At(0)};
  return known;
}

std::shared_ptr<const View> Build(const std::shared_ptr<const View>& before,
                                  const std::vector<Member>& members, int64_t now_ms = 0) {
  return BuildView(before, Known(members), {}, At(now_ms));
}

Key KeyOf(uint64_t n) {
  Key key;
  const uint64_t word = (n + 1) * 0x9e3779b97f4a7c15;
  std::memcpy(key.bytes.data(), &word, sizeof(word));
  return key;
}

std::set<std::string> Owners(const View& view, const Ring& ring) {
  std::set<std::string> ids;
  for (uint64_t n = 0; n < 2000; ++n) {
    const Member* member = view.Find(ring.OwnerOf(KeyOf(n)));
    if (member != nullptr) ids.insert(member->id);
  }
  return ids;
}

using Ids = std::set<std::string>;
constexpr auto kJ = MemberState::kJoining, kA = MemberState::kActive, kD = MemberState::kDraining;

TEST(View, JoinersAreInNextAndDrainersInCurrent) {
  const auto view = Build(nullptr, {MakeMember("a", kA), MakeMember("d", kD), MakeMember("j", kJ)});
  EXPECT_EQ(Owners(*view, view->current), (Ids{"a", "d"}));
  EXPECT_EQ(Owners(*view, view->next), (Ids{"a", "j"}));
  EXPECT_TRUE(view->previous.empty());
  EXPECT_EQ(view->Find(NodeHash("a"))->id, "a");
  EXPECT_TRUE(view->HasMember(NodeHash("j")));
  EXPECT_EQ(view->Find(NodeHash("x")), nullptr);
}

TEST(View, AColdStartOfJoinersOwnsTheRingTogether) {
  const auto cold = Build(nullptr, {MakeMember("x", kJ), MakeMember("y", kJ), MakeMember("z", kJ)});
  EXPECT_EQ(Owners(*cold, cold->current), (Ids{"x", "y", "z"}));
  EXPECT_EQ(cold->current, cold->next);
  const auto one = Build(cold, {MakeMember("x", kA), MakeMember("y", kJ), MakeMember("z", kJ)});
  EXPECT_EQ(Owners(*one, one->current), (Ids{"x"}));
  EXPECT_EQ(one->next, cold->next);
  EXPECT_EQ(one->previous, cold->current);
}

TEST(View, WhenEverybodyDrainsRecordsStayWhereTheyAre) {
  const auto view = Build(nullptr, {MakeMember("a", kD), MakeMember("b", kD)});
  EXPECT_EQ(view->next, view->current);
  EXPECT_FALSE(view->next.empty());
}

TEST(View, NobodyIsAnEmptyView) {
  const auto view = Build(nullptr, {});
  EXPECT_TRUE(view->current.empty());
  EXPECT_TRUE(view->next.empty());
  EXPECT_EQ(Build(view, {}), view);
}

TEST(View, IsReplacedOnlyWhenSomethingThatMattersChanged) {
  const std::vector<Member> members = {MakeMember("a", kA), MakeMember("b", kA)};
  const auto view = Build(nullptr, members);
  EXPECT_EQ(Build(view, members, 100), view);

  std::vector<std::function<void(Member*)>> changes = {
      [](Member* m) { m->incarnation = 9; },    [](Member* m) { m->state = kD; },
      [](Member* m) { m->host = "10.0.0.9"; },  [](Member* m) { m->peer_port = 9; },
      [](Member* m) { m->http_port = 9; },      [](Member* m) { m->capacity_bytes *= 9; },
      [](Member* m) { m->synced = {1, 2, 3}; },
  };
  for (const auto& change : changes) {
    auto changed = members;
    change(&changed[1]);
    EXPECT_NE(Build(view, changed, 100), view);
  }
  auto synced = members;
  synced[0].synced = {1, 2};
  const auto with = Build(view, synced);
  EXPECT_EQ(with->epoch, view->epoch) << "no ring changed";
  synced[0].synced = {2, 1};
  EXPECT_EQ(Build(with, synced), with) << "a set has no order";
}

TEST(View, EpochGrowsWithEveryChangeOfARing) {
  auto view = Build(nullptr, {MakeMember("a", kA)});
  const uint64_t first = view->epoch;
  view = Build(view, {MakeMember("a", kA), MakeMember("j", kJ)});
  EXPECT_EQ(view->epoch, first + 1);
  view = Build(view, {MakeMember("a", kA), MakeMember("j", kA)});
  EXPECT_EQ(view->epoch, first + 2);
}

TEST(View, PreviousLivesForItsGrace) {
  const auto before = Build(nullptr, {MakeMember("a", kA), MakeMember("b", kA)}, 0);
  const std::vector<Member> after = {MakeMember("a", kA)};
  const auto view = Build(before, after, 100);
  EXPECT_EQ(view->previous, before->current);
  EXPECT_EQ(view->previous_until, At(6100));
  EXPECT_EQ(Build(view, after, 6099), view);
  // A change that leaves `current` alone keeps it.
  auto synced = after;
  synced[0].synced = {5};
  const auto later = Build(view, synced, 3000);
  EXPECT_EQ(later->previous, before->current);
  EXPECT_EQ(later->previous_until, At(6100));
  const auto over = Build(view, after, 6100);
  EXPECT_TRUE(over->previous.empty());
  EXPECT_EQ(over->epoch, view->epoch);
  EXPECT_EQ(Build(over, after, 9000), over);
}

TEST(View, AChangeIsThroughWhenEveryOtherMemberHasSyncedIt) {
  Member j = MakeMember("j", kJ), a = MakeMember("a", kA), b = MakeMember("b", kD);
  auto view = Build(nullptr, {a, b, j});
  const auto pending = PendingChanges(*view);
  EXPECT_EQ(std::set<uint64_t>(pending.begin(), pending.end()),
            (std::set<uint64_t>{SyncToken(j), SyncToken(b)}));
  EXPECT_FALSE(EveryoneSynced(*view, j));
  a.synced = {SyncToken(j)};
  EXPECT_FALSE(EveryoneSynced(*Build(view, {a, b, j}), j));
  b.synced = {SyncToken(j), 77};
  EXPECT_TRUE(EveryoneSynced(*Build(view, {a, b, j}), j));
  // What was synced for a former incarnation or state does not count.
  EXPECT_FALSE(EveryoneSynced(*Build(view, {a, b, j}), MakeMember("j", kJ, 2)));
  EXPECT_FALSE(EveryoneSynced(*Build(view, {a, b, j}), MakeMember("j", kD)));
  EXPECT_TRUE(EveryoneSynced(*Build(nullptr, {j}), j)) << "alone";
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
    members_.push_back(MakeMember("node" + std::to_string(count_++), state));
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
  const std::vector<Member> few = {MakeMember("a", kA), MakeMember("b", kA)};
  std::vector<Member> more = few;
  more.push_back(MakeMember("c", kA));
  const auto before = Build(nullptr, few), after = Build(before, more);
  int lost = 0;
  for (uint64_t n = 0; n < 300; ++n)
    lost += Finds(*before, KeyOf(n), PublishedTo(*after, KeyOf(n))) ? 0 : 1;
  EXPECT_GT(lost, 30);
}

TEST(ViewChange, ADeathCostsOnlyWhatTheDeadShardHeld) {
  std::vector<Member> members;
  for (int i = 0; i < 5; ++i) members.push_back(MakeMember("n" + std::to_string(i), kA));
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
  const std::vector<Member> old = {MakeMember("a", kA), MakeMember("b", kA), MakeMember("c", kA)};
  auto restarted = old;
  restarted[2] = MakeMember("c", kJ, 2);
  const auto before = Build(nullptr, old), after = Build(before, restarted);
  for (uint64_t n = 0; n < 1000; ++n) {
    ASSERT_TRUE(Finds(*after, KeyOf(n), PublishedTo(*before, KeyOf(n))));
    ASSERT_TRUE(Finds(*before, KeyOf(n), PublishedTo(*after, KeyOf(n))));
  }
}

}  // namespace
}  // namespace peercache
