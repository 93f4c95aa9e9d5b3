#include "directory/ring_simulation.h"

#include <gtest/gtest.h>

#include <cstring>
#include <unordered_map>

#include "base/one_thread_testing.h"

namespace peercache {
namespace {

[[maybe_unused]] const bool kOneThread = testing::OneThread::In(__FILE__);

constexpr uint32_t kVnodes = 160;  // the default of NodeConfig
constexpr double kMostImbalance = 1.10;

Key RandomKey(std::mt19937_64* rng) {
  Key key;
  for (size_t word = 0; word < 4; ++word) {
    const uint64_t x = (*rng)();
    std::memcpy(key.bytes.data() + 8 * word, &x, sizeof(x));
  }
  return key;
}

struct Case {
  size_t members;
  Capacities capacities;
};

class RingSimulation : public ::testing::TestWithParam<Case> {};

TEST_P(RingSimulation, NobodyHasTenPercentMoreThanItsShare) {
  std::mt19937_64 rng(11);
  const auto members = SimulatedMembers(GetParam().members, GetParam().capacities, &rng);
  const Balance balance = BalanceOf(members, SimulateShares(members, kVnodes, &rng));
  EXPECT_LE(balance.most, kMostImbalance);
  EXPECT_GE(balance.least, 2 - kMostImbalance);
}

TEST_P(RingSimulation, AJoinMovesOneShareAndOnlyToTheNewMember) {
  const size_t count = GetParam().members;
  std::mt19937_64 rng(12);
  const auto members = SimulatedMembers(count + 1, GetParam().capacities, &rng);
  const Ring before(std::span<const RingMember>(members).first(count), kVnodes),
      after(members, kVnodes);
  for (int i = 0; i < 30'000; ++i) {
    const Key key = RandomKey(&rng);
    const uint64_t owner = after.OwnerOf(key);
    ASSERT_TRUE(owner == before.OwnerOf(key) || owner == members.back().node);
  }
  // So what moves is the new member's share.
  const double ideal = static_cast<double>(members.back().weight) / TotalWeight(members);
  const double moved = SimulateShares(members, kVnodes, &rng).back();
  EXPECT_LE(moved, 1.1 * ideal);
  EXPECT_GE(moved, 0.9 * ideal);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, RingSimulation,
    ::testing::Values(Case{3, Capacities::kEqual}, Case{3, Capacities::kMixed},
                      Case{10, Capacities::kEqual}, Case{10, Capacities::kMixed},
                      Case{100, Capacities::kEqual}, Case{300, Capacities::kMixed},
                      Case{1000, Capacities::kEqual}, Case{10000, Capacities::kEqual}),
    [](const auto& test) {
      return std::to_string(test.param.members) +
             (test.param.capacities == Capacities::kEqual ? "Equal" : "Mixed");
    });

// The simulation is of this ring: keys that are looked up follow the same shares, more closely than
// they follow the weights.
TEST(RingSimulation, LookedUpKeysFollowTheSimulatedShares) {
  constexpr int kKeys = 500'000;
  for (const Capacities capacities : {Capacities::kEqual, Capacities::kMixed}) {
    std::mt19937_64 rng(13);
    const auto members = SimulatedMembers(40, capacities, &rng);
    const Ring ring(members, 8);  // few points: shares that differ from the weights
    const auto shares = SimulateShares(members, 8, &rng);
    EXPECT_GT(BalanceOf(members, shares).most, 1.08);
    std::unordered_map<uint64_t, double> counted;
    for (int i = 0; i < kKeys; ++i) counted[ring.OwnerOf(RandomKey(&rng))] += 1.0 / kKeys;
    for (size_t m = 0; m < members.size(); ++m) {
      EXPECT_NEAR(counted[members[m].node] / shares[m], 1, 0.06);
    }
  }
}

}  // namespace
}  // namespace peercache
