#include "directory/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace peercache {
namespace {

constexpr int kSamples = 100000;

std::vector<Key> SampleKeys() {
  std::mt19937_64 rng(3);
  std::vector<Key> keys(kSamples);
  for (Key& key : keys) {
    const uint64_t word = rng();
    std::memcpy(key.bytes.data(), &word, sizeof(word));
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

TEST(Ring, EqualMembersShareWithinThirtyPercent) {
  for (int count : {2, 3, 16, 64}) {
    const auto shares = Shares(Ring(Members(count), 160));
    ASSERT_EQ(shares.size(), static_cast<size_t>(count));
    for (const auto& [node, share] : shares) EXPECT_NEAR(share * count, kSamples, 0.3 * kSamples);
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
    EXPECT_NEAR(shares[member.node], fair, 0.35 * fair);
  }
}

TEST(Ring, ExtremeWeightsLeaveEveryMemberAPoint) {
  std::vector<RingMember> members = {{1, UINT64_MAX}, {2, 1}, {3, 0}};
  const Ring ring(members, 160);
  auto shares = Shares(ring);
  EXPECT_GT(shares[1], kSamples * 9 / 10);
  // Weight 0 counts as the smallest.
  members[2].weight = 1;
  EXPECT_EQ(ring, Ring(members, 160));
  // All zero: equal.
  std::vector<RingMember> none = {{1, 0}, {2, 0}};
  for (const auto& [node, share] : Shares(Ring(none, 160)))
    EXPECT_NEAR(share, kSamples / 2, kSamples / 6);
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

// Rings must agree between nodes of different builds: a change of these owners breaks a rolling
// upgrade.
TEST(Ring, PlacementIsFixedForever) {
  const std::vector<RingMember> members = {{11, 1}, {22, 2}, {33, 3}};
  const Ring ring(members, 160);
  std::vector<uint64_t> owners;
  for (uint64_t i = 0; i < 8; ++i) {
    Key key;
    const uint64_t word = i * 0x2000000000000000 + 12345;
    std::memcpy(key.bytes.data(), &word, sizeof(word));
    owners.push_back(ring.OwnerOf(key));
  }
  EXPECT_EQ(owners, (std::vector<uint64_t>{33, 22, 33, 22, 22, 33, 22, 11}));
}

TEST(Ring, AJoinMovesKeysOnlyToTheNewMemberAndALeaveOnlyFromIt) {
  const auto members = Members(10);
  const Ring with(members, 160), without(std::span<const RingMember>(members).first(9), 160);
  int moved = 0;
  for (const Key& key : SampleKeys()) {
    const uint64_t before = without.OwnerOf(key), after = with.OwnerOf(key);
    if (before == after) continue;
    ++moved;
    ASSERT_EQ(after, members[9].node);
  }
  EXPECT_NEAR(moved, kSamples / 10, 0.3 * kSamples / 10);
}

TEST(Ring, WithUnequalWeightsAJoinMovesLittleElse) {
  auto members = Members(10);
  members[9].weight *= 4;
  const Ring with(members, 160), without(std::span<const RingMember>(members).first(9), 160);
  int to_new = 0, elsewhere = 0;
  for (const Key& key : SampleKeys()) {
    const uint64_t after = with.OwnerOf(key);
    if (without.OwnerOf(key) == after) continue;
    ++(after == members[9].node ? to_new : elsewhere);
  }
  EXPECT_NEAR(to_new, kSamples * 4 / 13, 0.3 * kSamples * 4 / 13);
  EXPECT_LT(elsewhere, kSamples / 8);
}

}  // namespace
}  // namespace peercache
