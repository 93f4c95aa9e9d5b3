// Locator: whom it asks, and whom it blames. Nobody listens where the peer is said to be.
#include "node/read/locator.h"

#include <gtest/gtest.h>

#include <set>

#include "directory/fence.h"
#include "membership/view.h"
#include "node/integration/node_testing.h"
#include "wire/record.h"

namespace peercache {
namespace {

using std::chrono::seconds;
using testing::KeyOf;
using testing::TestCluster;

constexpr size_t kKeys = 3;

class LocatorTest : public ::testing::Test {
 protected:
  LocatorTest() {
    Member member;
    member.id = "peer";
    member.incarnation = 1;
    member.state = MemberState::kActive;
    member.host = "127.0.0.1";
    member.peer_port = TestCluster::FreePort();
    view_.members.push_back(member);
    view_.by_node[kPeer] = 0;
    const RingMember ring[] = {{kPeer, 1}};
    view_.current = Ring(ring, 8);
    peers_.Update(view_);
    for (size_t i = 0; i < kKeys; ++i) keys_.push_back(KeyOf(i));
  }

  uint64_t Blamed() { return peers_.Find(kPeer)->health().trips(); }
  std::vector<size_t> Lookup(TimePoint deadline) {
    std::vector<Record> records(kKeys);
    return locator_.Lookup(view_, keys_, records, deadline);
  }
  // The shard learns that the holder has the pages.
  static void Publish(uint64_t holder, milliseconds lease, std::span<const Key> keys,
                      Shard* shard) {
    Fence fence(holder, 1, OwnerTimes{.lease = lease, .owner_ttl = seconds(60)}, Clock::now());
    const OwnerStamp stamp = fence.Begin();
    ASSERT_TRUE(shard->Contact(stamp, Clock::now()).ok());
    const ShardVoice voice = shard->Voice(holder, Clock::now());
    fence.Answered(stamp, voice.stamp, voice.instance, Clock::now());
    std::vector<PublishItem> items;
    for (const Key& key : keys)
      items.push_back({key, {.node = holder, .incarnation = 1, .generation = 1, .length = 100}});
    std::vector<uint8_t> outcomes(items.size());
    ASSERT_TRUE(shard->Publish(fence.Begin(), items, outcomes, Clock::now()).ok());
  }
  void Publish(uint64_t holder) { Publish(holder, seconds(50), keys_, &shard_); }

  const uint64_t kPeer = NodeHash("peer"), kSelf = NodeHash("self");
  View view_;
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", kSelf, 1}, secret_.get(), OwnerTimes{}};
  Shard shard_{ShardOptions{.self = kSelf}};
  Counters counters_;
  Locator locator_{{.stall = seconds(5)}, &shard_, &peers_, nullptr, nullptr, &counters_};
  std::vector<Key> keys_;
};

TEST_F(LocatorTest, APeerThatHadNoTimeToAnswerIsNotBlamed) {
  Lookup(Clock::now());
  EXPECT_EQ(Blamed(), 0u);
  EXPECT_EQ(counters_.asked_for, 0u);
  Lookup(Clock::now() + seconds(20));
  EXPECT_EQ(Blamed(), 1u) << "it had time";
  EXPECT_EQ(counters_.asked_for, kKeys);
}

// Its breaker opens for as long as after any failure.
TEST_F(LocatorTest, APeerIsBlamedOnceHoweverManyMessagesACallHasForIt) {
  const auto keys = testing::TestEngine::Keys(0, 2 * LookupRound::kBatch + 1);
  std::vector<Record> records(keys.size());
  EXPECT_EQ(locator_.Lookup(view_, keys, records, Clock::now() + seconds(20)).size(), keys.size());
  EXPECT_EQ(counters_.asked_for, keys.size());
  EXPECT_EQ(Blamed(), 1u);
}

// Of a real shard, in several messages and in the order of their answers; a third is not there.
TEST_F(LocatorTest, ManyKeysAreFoundInTheirPlaces) {
  TestCluster cluster;
  const auto node = cluster.Start("peer");
  view_.members.front().peer_port = node->peer_port();
  peers_.Update(view_);
  constexpr size_t kMany = 5 * LookupRound::kBatch / 2, kPage = 4096;
  const auto keys = testing::TestEngine::Keys(0, kMany);
  testing::TestEngine engine(node->socket(), kMany / 3, kPage);
  // Every third key, so that no message has only such.
  std::vector<Key> set;
  for (size_t i = 0; i < kMany / 3; ++i) set.push_back(keys[3 * i]);
  std::vector<uint8_t> ok(set.size());
  engine.client().Set(set, engine.Segments(set.size()), 2, 1, ok);
  ASSERT_EQ(std::ranges::count(ok, 1), static_cast<ptrdiff_t>(set.size()));
  const RingMember ring[] = {{kSelf, 1}, {kPeer, 3}};
  view_.current = Ring(ring, 8);
  std::vector<Record> records(kMany);
  EXPECT_TRUE(locator_.Lookup(view_, keys, records, Clock::now() + seconds(60)).empty());
  std::set<uint64_t> places;
  size_t found = 0;
  for (size_t i = 0; i < kMany; ++i) {
    const bool there = i % 3 == 0 && i / 3 < set.size() && view_.current.OwnerOf(keys[i]) == kPeer;
    ASSERT_EQ(records[i].node, there ? kPeer : 0) << i;
    if (!there) continue;
    places.insert(records[i].offset);
    ++found;
  }
  EXPECT_EQ(places.size(), found) << "each in its own";
  EXPECT_GT(found, LookupRound::kBatch / 4);
}

TEST_F(LocatorTest, WhoseBreakerIsOpenIsNotAsked) {
  peers_.Find(kPeer)->health().Failed(Clock::now() + seconds(60));  // for longer than this takes
  Lookup(Clock::now() + seconds(20));
  EXPECT_EQ(counters_.asked_for, 0u);
}

// Nothing of such a holder is promised, and nothing of it is forgotten.
TEST_F(LocatorTest, WhatOnlyAHolderHasWhoseBreakerIsOpenIsLeftOut) {
  const RingMember ring[] = {{kSelf, 1}};
  view_.current = Ring(ring, 8);
  Publish(kPeer, seconds(50), std::span(keys_).first(2), &shard_);
  const auto found = [&] {
    std::vector<Record> records(kKeys);
    EXPECT_TRUE(locator_.Lookup(view_, keys_, records, Clock::now() + seconds(20)).empty());
    return std::ranges::count(records, kPeer, &Record::node);
  };
  const auto left_out = [&] { return locator_.LeftOut(view_, keys_, Clock::now() + seconds(20)); };
  EXPECT_EQ(found(), 2);
  EXPECT_TRUE(left_out().empty());
  peers_.Find(kPeer)->health().Failed(Clock::now() + seconds(60));
  EXPECT_EQ(found(), 0);
  EXPECT_EQ(left_out(), (std::vector<size_t>{0, 1}));
  peers_.Find(kPeer)->health().Succeeded();
  EXPECT_EQ(found(), 2);
}

TEST_F(LocatorTest, SaysOfWhichKeysNothingWasHeard) {
  const std::vector<size_t> all = {0, 1, 2};
  EXPECT_EQ(Lookup(Clock::now()), all) << "no time to ask";
  EXPECT_EQ(Lookup(Clock::now() + seconds(20)), all) << "nobody listens";
  EXPECT_EQ(Lookup(Clock::now() + seconds(20)), all) << "the breaker is open";
  // The shard that ought to know does not answer; the one that did before knows nothing.
  const RingMember self[] = {{kSelf, 1}};
  view_.previous = Ring(self, 8);
  EXPECT_EQ(Lookup(Clock::now() + seconds(20)), all);
  Publish(NodeHash("other"));
  EXPECT_TRUE(Lookup(Clock::now() + seconds(20)).empty()) << "it knows where they are";
}

TEST_F(LocatorTest, WhatNobodyHasWasAnswered) {
  const RingMember self[] = {{kSelf, 1}};
  view_.current = Ring(self, 8);
  EXPECT_TRUE(Lookup(Clock::now() + seconds(20)).empty());
}

// Two hold each page, and this node's own shard knows it. How far they are is measured.
TEST_F(LocatorTest, OfSeveralHoldersTheNearestIsNamed) {
  const uint64_t other = NodeHash("other");
  Member member = view_.members.front();
  member.id = "other";
  view_.by_node[other] = view_.members.size();
  view_.members.push_back(member);
  const RingMember ring[] = {{kSelf, 1}};
  view_.current = Ring(ring, 8);
  peers_.Update(view_);
  Publish(kPeer);
  Publish(other);
  const auto all_at = [&](uint64_t holder, std::span<const uint64_t> failed = {}) {
    std::vector<Record> records(kKeys);
    locator_.Lookup(view_, keys_, records, Clock::now() + seconds(20), failed);
    return std::ranges::all_of(records, [&](const Record& r) { return r.node == holder; });
  };
  for (const auto& [near, far] : {std::pair(kPeer, other), std::pair(other, kPeer)}) {
    peers_.Find(near)->round_trip().Forget();
    peers_.Find(near)->round_trip().Took(milliseconds(1));
    peers_.Find(far)->round_trip().Forget();
    peers_.Find(far)->round_trip().Took(milliseconds(30));
    EXPECT_TRUE(all_at(near));
    EXPECT_TRUE(all_at(far, {&near, 1})) << "the nearer one has failed";
    const UnderWay much = peers_.Find(near)->Reading(uint64_t{1} << 30);
    EXPECT_TRUE(all_at(near)) << "still the nearer";
    peers_.Find(far)->round_trip().Took(milliseconds(1));
    EXPECT_TRUE(all_at(far)) << "as near, and idle";
  }
}

// Whatever is configured, and whichever lease is shorter: ours or the holder's.
TEST_F(LocatorTest, WhatIsRememberedEndsWithTheLease) {
  const RingMember ring[] = {{kSelf, 1}};
  view_.current = Ring(ring, 8);
  constexpr milliseconds kShort{700};
  for (const bool ours : {true, false}) {
    const milliseconds lease = ours ? seconds(50) : kShort;
    Shard shard({.self = kSelf});
    Publish(kPeer, lease, std::span(keys_).first(2), &shard);
    Locator locator({.stall = seconds(5),
                     .lease = ours ? Duration(kShort) : Duration(seconds(50)),
                     .cache_ttl = std::chrono::hours(1)},
                    &shard, &peers_, nullptr, nullptr, &counters_);
    std::vector<Record> records(kKeys);
    std::vector<TimePoint> until(kKeys);
    const TimePoint before = Clock::now();
    locator.Lookup(view_, keys_, records, before + seconds(20));
    const TimePoint after = Clock::now();
    ASSERT_EQ(records[0].node, kPeer);
    EXPECT_EQ(locator.Recall(keys_, records, until, before + kShort - milliseconds(1)), 2u) << ours;
    EXPECT_EQ(locator.Recall(keys_, records, until, after + kShort), 0u) << ours;
  }
}

// A READ of a remembered location may take the lease, however soon the location is forgotten.
TEST_F(LocatorTest, WhatIsRememberedMayBeReadForItsLease) {
  const RingMember ring[] = {{kSelf, 1}};
  view_.current = Ring(ring, 8);
  constexpr milliseconds kTtl{700};
  for (const bool ours : {true, false}) {
    Shard shard({.self = kSelf});
    Publish(kPeer, ours ? seconds(60) : seconds(50), std::span(keys_).first(2), &shard);
    Locator locator(
        {.stall = seconds(5), .lease = ours ? seconds(50) : seconds(60), .cache_ttl = kTtl}, &shard,
        &peers_, nullptr, nullptr, &counters_);
    std::vector<Record> records(kKeys);
    std::vector<TimePoint> until(kKeys);
    const TimePoint before = Clock::now();
    locator.Lookup(view_, keys_, records, before + seconds(20));
    const TimePoint after = Clock::now();
    EXPECT_EQ(locator.Recall(keys_, records, until, before + kTtl - milliseconds(1)), 2u) << ours;
    EXPECT_GE(until[0], before + seconds(50)) << ours;
    EXPECT_LE(until[0], after + seconds(50)) << ours;
    EXPECT_EQ(locator.Recall(keys_, records, until, after + kTtl), 0u) << ours;
  }
}

}  // namespace
}  // namespace peercache
