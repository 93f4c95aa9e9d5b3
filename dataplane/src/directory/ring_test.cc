#include "directory/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

namespace peercache {
namespace {

constexpr int kSamples = 100000;

std::vector<Key> SampleKeys() {
  std::mt19937_64 rng(3);
  std::vector<Key> keys(kSamples);
  for (Key& key : keys) {
    for (size_t i = 0; i < 4; ++i) {
      const uint64_t word = rng();
      std::memcpy(key.bytes.data() + 8 * i, &word, sizeof(word));
    }
  }
  return keys;
}

std::vector<RingMember> Members(int count, uint64_t weight = 1 << 20) {
  std::vector<RingMember> members;
  std::mt19937_64 rng(9);
  for (int i = 0; i < count; ++i) members.push_back({rng(), weight});
  return members;
}

std::map<uint64_t, int> Shares(const Ring& ring) {
  std::map<uint64_t, int> shares;
  for (const Key& key : SampleKeys()) ++shares[ring.OwnerOf(key)];
  return shares;
}

TEST(Ring, EmptyOwnsNothing) {
  EXPECT_TRUE(Ring().empty());
  EXPECT_TRUE(Ring({}, 160).empty());
  EXPECT_EQ(Ring().OwnerOf(Key{}), 0u);
}

TEST(Ring, OneMemberOwnsEverything) {
  const auto members = Members(1);
  EXPECT_EQ(Shares(Ring(members, 160)), (std::map<uint64_t, int>{{members[0].node, kSamples}}));
}

TEST(Ring, EqualMembersShareWithinTenPercent) {
  for (int count : {2, 3, 16}) {
    const auto shares = Shares(Ring(Members(count), 160));
    ASSERT_EQ(shares.size(), static_cast<size_t>(count));
    for (const auto& [node, share] : shares) EXPECT_NEAR(share * count, kSamples, 0.1 * kSamples);
  }
}

TEST(Ring, SharesFollowTheWeights) {
  auto members = Members(8);
  for (size_t i = 0; i < members.size(); ++i)
    members[i].weight = (i % 2 == 0 ? 1u : 3u) * (uint64_t{1} << 40);
  auto shares = Shares(Ring(members, 160));
  for (const RingMember& member : members) {
    const double fair = kSamples * static_cast<double>(member.weight) /
                        (16.0 * static_cast<double>(uint64_t{1} << 40));
    EXPECT_NEAR(shares[member.node], fair, 0.1 * fair);
  }
}

TEST(Ring, ExtremeWeights) {
  std::vector<RingMember> members = {{1, UINT64_MAX}, {2, 1}, {3, 0}};
  const Ring ring(members, 160);
  EXPECT_GT(Shares(ring)[1], kSamples * 999 / 1000);
  // Weight 0 counts as 1.
  members[2].weight = 1;
  EXPECT_EQ(ring, Ring(members, 160));
  // All zero: equal.
  std::vector<RingMember> none = {{1, 0}, {2, 0}};
  for (const auto& [node, share] : Shares(Ring(none, 160)))
    EXPECT_NEAR(share, kSamples / 2, kSamples / 20);
}

TEST(Ring, FewPointsStillGiveEveryKeyAnOwner) {
  // Most keys are let in by none of three points, and then go to the nearest.
  auto members = Members(3);
  members[0].weight <<= 10;
  const auto shares = Shares(Ring(members, 1));
  int sum = 0;
  for (const auto& [node, share] : shares) sum += share;
  EXPECT_EQ(sum, kSamples);
  EXPECT_FALSE(shares.contains(0));
  EXPECT_EQ(Ring(members, 0), Ring(members, 1));
}

TEST(Ring, OrderAndRepetitionOfMembersDoNotMatter) {
  auto members = Members(12);
  members[3].weight = 7 << 20;
  const Ring ring(members, 160);
  std::shuffle(members.begin(), members.end(), std::mt19937_64(1));
  EXPECT_EQ(ring, Ring(members, 160));
  members.push_back(members[4]);
  EXPECT_EQ(ring, Ring(members, 160));
}

TEST(Ring, TakesOverAFormerRingOnlyWhenItIsEqual) {
  const auto members = Members(4);
  const Ring empty, fewer(std::span<const RingMember>(members).first(3), 160), same(members, 160);
  auto heavier = members;
  heavier[1].weight += 1;
  EXPECT_EQ(Ring(members, 160, {nullptr, &empty, &fewer, &same}), same);
  EXPECT_EQ(Ring(heavier, 160, {&fewer, &same}), Ring(heavier, 160));
  EXPECT_EQ(Ring(members, 80, {&same}), Ring(members, 80));
  EXPECT_NE(Ring(members, 80, {&same}), same);
  EXPECT_EQ(Ring({}, 160, {&same}), empty);
}

TEST(Ring, FingerprintsAreEqualWhenRingsAre) {
  auto members = Members(5);
  const uint64_t fingerprint = Ring(members, 160).Fingerprint();
  std::reverse(members.begin(), members.end());
  EXPECT_EQ(Ring(members, 160).Fingerprint(), fingerprint);
  EXPECT_NE(Ring(members, 80).Fingerprint(), fingerprint);
  members[2].weight += 1;
  EXPECT_NE(Ring(members, 160).Fingerprint(), fingerprint);
  EXPECT_EQ(Ring().Fingerprint(), 0u);
}

// Rings must agree between nodes of different builds: a change of these owners breaks a rolling
// upgrade.
TEST(Ring, PlacementIsFixedForever) {
  const std::vector<RingMember> members = {{11, 1}, {22, 2}, {33, 3}};
  const Ring ring(members, 160);
  std::vector<uint64_t> owners;
  for (uint64_t i = 0; i < 8; ++i) {
    Key key;
    for (const size_t at : {0, 16}) {  // the words that the ring looks at
      const uint64_t word = (i + at) * 0x2000000000000000 + 12345 * (at + 1);
      std::memcpy(key.bytes.data() + at, &word, sizeof(word));
    }
    owners.push_back(ring.OwnerOf(key));
  }
  EXPECT_EQ(owners, (std::vector<uint64_t>{33, 22, 33, 11, 22, 33, 33, 22}));
}

// Both directions at once: from `after` to `before` the member leaves.
TEST(Ring, AJoinMovesKeysOnlyToTheNewMemberAndALeaveOnlyFromIt) {
  auto members = Members(10);
  for (size_t i = 0; i < members.size(); ++i) members[i].weight <<= i % 4;
  for (const uint64_t weight : {members[0].weight / 8, members[0].weight, members[0].weight * 32}) {
    members[9].weight = weight;
    const Ring after(members, 160), before(std::span<const RingMember>(members).first(9), 160);
    for (const Key& key : SampleKeys()) {
      const uint64_t owner = after.OwnerOf(key);
      ASSERT_TRUE(owner == before.OwnerOf(key) || owner == members[9].node);
    }
  }
}

TEST(Ring, AMemberThatGainsWeightOnlyGainsKeys) {
  auto members = Members(6);
  members[1].weight *= 5;
  const Ring before(members, 160);
  members[4].weight *= 3;
  const Ring after(members, 160);
  for (const Key& key : SampleKeys()) {
    const uint64_t owner = after.OwnerOf(key);
    ASSERT_TRUE(owner == before.OwnerOf(key) || owner == members[4].node);
  }
}

}  // namespace
}  // namespace peercache
