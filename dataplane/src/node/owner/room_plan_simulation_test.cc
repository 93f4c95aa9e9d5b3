// The plan against a real pool in time that the test makes: sets of a given rate, a round of upkeep
// every 20 ms, slots that come back a lease after their eviction.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "base/one_thread_testing.h"
#include "node/owner/room_plan.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

[[maybe_unused]] const bool kOneThread = testing::OneThread::In(__FILE__);

using namespace std::chrono_literals;

constexpr Duration kTick = 20ms;
constexpr Duration kLease = 1s;
constexpr size_t kPoolBytes = 64 * kMiB;
constexpr size_t kPage = 8 * kKiB;

class Simulation {
 public:
  explicit Simulation(Watermarks watermarks = {}) : plan_(watermarks, kLease + kTick) {}

  // Sets `rate` bytes per second of pages of `length` for `how_long`; returns how many found no
  // slot or had to slow down.
  struct Outcome {
    uint64_t stored = 0, refused = 0, paced = 0;
  };
  Outcome Write(double rate, Duration how_long, size_t length = kPage, bool obey_pace = false) {
    Outcome outcome;
    double due = 0;  // bytes
    for (const TimePoint end = now_ + how_long; now_ < end; now_ += kTick) {
      const double tick = std::chrono::duration<double>(kTick).count();
      const double pace = plan_.Pace(pool_->use());
      const bool slower = pace != 0 && pace < rate;
      due += (slower && obey_pace ? pace : rate) * tick;
      for (; due >= static_cast<double>(length); due -= static_cast<double>(length)) {
        const bool stored = static_cast<bool>(Put(*pool_, next_++, length));
        outcome.paced += slower;
        ++(stored ? outcome.stored : outcome.refused);
        if (!stored) plan_.Unmet(length, length);
      }
      Round();
    }
    return outcome;
  }
  void Idle(Duration how_long) { Write(0, how_long); }
  size_t used() const { return pool_->stats().used_bytes; }
  size_t pages(size_t length) {
    size_t count = 0;
    pool_->ForEachReady([&](const PageInfo& page) { count += page.length == length; });
    return count;
  }
  RoomPlan& plan() { return plan_; }
  // From now on slots come back later by this.
  void Delay(Duration delay) { delay_ = delay; }

 private:
  void Round() {
    for (const RoomPlan::Eviction& eviction : plan_.Decide(now_, pool_->use())) {
      const auto victims = pool_->TakeVictims(eviction.bytes, eviction.length);
      for (const Victim& victim : victims) pool_->Quarantine(victim, now_ + kLease + delay_);
      if (!victims.empty()) plan_.Returning(kLease + delay_ + kTick);
    }
    pool_->Reclaim(now_);
  }

  std::unique_ptr<Pool> pool_ = MakePool(kPoolBytes, 1 * kMiB);
  RoomPlan plan_;
  TimePoint now_ = Clock::now();
  Duration delay_{};
  uint64_t next_ = 0;
};

constexpr double kCapacity = kPoolBytes;

TEST(RoomPlan, ASlowWriterFillsThePoolToTheHighWatermark) {
  Simulation s;
  const auto outcome = s.Write(kCapacity / 100, 150s);
  EXPECT_EQ(outcome.refused, 0u);
  EXPECT_EQ(outcome.paced, 0u);
  EXPECT_GT(static_cast<double>(s.used()), 0.93 * kCapacity);
  EXPECT_LT(static_cast<double>(s.used()), 0.96 * kCapacity);
}

// Up to nearly what the largest reserve gives: a quarter of the pool in 1.02 s, less the margin.
class SteadyWriter : public ::testing::TestWithParam<double> {};

TEST_P(SteadyWriter, NeverStallsHoweverLongItWrites) {
  Simulation s;
  const auto outcome = s.Write(GetParam() * kCapacity, 60s);
  EXPECT_GT(outcome.stored * kPage, 2 * kPoolBytes);
  EXPECT_EQ(outcome.refused, 0u);
  EXPECT_EQ(outcome.paced, 0u);
  EXPECT_GT(static_cast<double>(s.used()), (1 - 1.6 * GetParam() - 0.05) * kCapacity);
}

INSTANTIATE_TEST_SUITE_P(SharesOfThePoolPerSecond, SteadyWriter,
                         ::testing::Values(0.04, 0.08, 0.15, 0.19));

TEST(RoomPlan, ABurstOfTheReserveFindsFreeSlots) {
  Simulation s;
  s.Write(kCapacity / 50, 100s);
  s.Idle(300s);
  EXPECT_EQ(s.Write(kCapacity * 0.04 / 0.02, kTick).refused, 0u);  // 4 % of the pool at once
}

TEST(RoomPlan, AWriterThatSetsInStrides) {
  Simulation s;
  s.Write(kCapacity / 10, 20s);  // full
  s.Write(kCapacity / 10, 20s);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(s.Write(kCapacity / 10, 1s).refused, 0u);
    s.Idle(3s);
  }
}

TEST(RoomPlan, TheReserveFollowsASuddenWriterWithinSeconds) {
  Simulation s;
  s.Write(kCapacity / 100, 150s);
  s.Idle(60s);
  // Three times what the reserve is made for: some sets find no slot at first, then none.
  s.Write(kCapacity * 0.15, 5s);
  EXPECT_EQ(s.Write(kCapacity * 0.15, 30s).refused, 0u);
  // And gives the memory back afterwards.
  s.Idle(60s);
  s.Write(kCapacity / 100, 30s);
  EXPECT_GT(static_cast<double>(s.used()), 0.93 * kCapacity);
}

TEST(RoomPlan, AWriterThatIsTooFastIsSlowedAndLeavesTheRestInPlace) {
  Simulation unpaced, paced;
  const auto refused = unpaced.Write(kCapacity, 5s);
  EXPECT_GT(refused.refused, refused.stored) << "one pool a second is four times too much";
  paced.Write(kCapacity, 5s, kPage, true);
  const auto slowed = paced.Write(kCapacity, 10s, kPage, true);
  EXPECT_GT(slowed.paced, 0u);
  EXPECT_LT(slowed.refused, slowed.stored / 50);
  // Neither costs much of what the reserve can give.
  const double possible = 0.25 * kCapacity / 1.02;
  EXPECT_GT(static_cast<double>(slowed.stored * kPage), 0.75 * possible * 10);
  for (Simulation* s : {&unpaced, &paced})
    EXPECT_GT(static_cast<double>(s->used()), 0.70 * kCapacity);
}

TEST(RoomPlan, SlowWithdrawalsMakeALargerReserve) {
  Simulation s;
  s.Write(kCapacity * 0.04, 40s);
  s.Delay(3s);
  s.Write(kCapacity * 0.04, 10s);
  EXPECT_EQ(s.Write(kCapacity * 0.04, 30s).refused, 0u);
  EXPECT_GT(s.plan().turnaround(), 4s);
  EXPECT_GT(static_cast<double>(s.plan().target_bytes()), 0.04 * 4 * kCapacity);
  s.Delay(0s);
  s.Write(kCapacity * 0.04, 60s);
  EXPECT_LT(s.plan().turnaround(), 1100ms);
  EXPECT_LT(static_cast<double>(s.plan().target_bytes()), 0.1 * kCapacity);
}

TEST(RoomPlan, EachSizeHasTheReserveThatItsSetsNeed) {
  Simulation s;
  constexpr size_t kLarge = 256 * kKiB;
  for (int i = 0; i < 300; ++i) {  // two large pages for a hundred small ones
    s.Write(kCapacity / 8, 100ms);
    s.Write(kCapacity / 2, kTick, kLarge);
  }
  Simulation::Outcome small, large;
  for (int i = 0; i < 300; ++i) {
    const auto a = s.Write(kCapacity / 8, 100ms);
    const auto b = s.Write(kCapacity / 2, kTick, kLarge);
    small.refused += a.refused, small.stored += a.stored;
    large.refused += b.refused, large.stored += b.stored;
  }
  EXPECT_GT(small.stored * kPage, 2 * kPoolBytes);
  EXPECT_EQ(large.stored, 600u);
  EXPECT_EQ(small.refused, 0u);
  EXPECT_EQ(large.refused, 0u);
  EXPECT_GT(s.pages(kPage) * kPage, s.pages(kLarge) * kLarge);
}

TEST(RoomPlan, ANewSizeGetsRoomInAFullPool) {
  Simulation s;
  s.Write(kCapacity / 10, 30s);
  s.Write(kCapacity / 10, 4s, 256 * kKiB);  // some of the first find nothing
  EXPECT_EQ(s.Write(kCapacity / 10, 20s, 256 * kKiB).refused, 0u);
}

TEST(RoomPlan, NothingIsEvictedForNothing) {
  RoomPlan plan({}, kLease);
  EXPECT_TRUE(plan.Decide(Clock::now(), {}).empty());
  PoolUse use;
  use.capacity_bytes = kPoolBytes;
  use.sizes = {{kPage, kPage + 64, 0, 0, 0}};
  EXPECT_TRUE(plan.Decide(Clock::now(), use).empty()) << "no sets yet";
}

}  // namespace
}  // namespace peercache
