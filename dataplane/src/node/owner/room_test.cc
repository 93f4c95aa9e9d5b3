// Sets into a full pool: slowed, refused, counted; reads go on meanwhile.
#include "node/owner/room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "directory/fence.h"
#include "node/integration/node_testing.h"
#include "pool/pool_testing.h"
#include "pool/size_class.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kLength = 64 * kKiB;

std::vector<Victim> FillAndEvict(Pool& pool, size_t evict) {
  for (uint64_t n = 0; Put(pool, n, kLength);) ++n;
  return pool.TakeVictims(evict * SlotBytes(SizeClassOf(kLength)), kLength);
}

TEST(Room, GivesWhatIsFree) {
  auto pool = MakePool(4 * kMiB);
  Room room(pool.get());
  EXPECT_TRUE(room.Reserve(kLength, Clock::now()).ok());
  EXPECT_EQ(room.Reserve(0, Clock::now()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(room.stats().waits, 0u);
  EXPECT_TRUE(room.AwaitWishes(0s).empty());
}

TEST(Room, WaitsForTheNextSlotToLeaveQuarantine) {
  auto pool = MakePool(4 * kMiB);
  Room room(pool.get());
  const TimePoint reuse_at = Clock::now() + 100ms;
  pool->Quarantine(FillAndEvict(*pool, 1).at(0), reuse_at);
  auto reservation = room.Reserve(kLength, Clock::now() + 60s);
  EXPECT_TRUE(reservation.ok());
  EXPECT_GT(Clock::now(), reuse_at);
  EXPECT_EQ(room.stats().waits, 1u);
  EXPECT_EQ(room.stats().hopeless, 0u);
  EXPECT_GT(room.stats().stalled, 0ms);
  const UnmetWishes wishes = room.AwaitWishes(0s);
  ASSERT_EQ(wishes.size(), 1u);
  EXPECT_EQ(wishes.begin()->first, kLength);
  EXPECT_EQ(wishes.begin()->second.refused, 0u) << "it was not refused";
}

TEST(Room, WaitsForWhoeverMakesRoom) {
  auto pool = MakePool(4 * kMiB);
  Room room(pool.get());
  const auto victims = FillAndEvict(*pool, 3);
  std::thread upkeep([&] {
    EXPECT_FALSE(room.AwaitWishes(60s).empty());
    for (const Victim& victim : victims) pool->Quarantine(victim, Clock::now() - 1ms);
    EXPECT_GT(pool->Reclaim(Clock::now()), 0u);
    room.Freed();
  });
  EXPECT_TRUE(room.Reserve(kLength, Clock::now() + 60s).ok());
  upkeep.join();
}

TEST(Room, RefusesAtTheDeadline) {
  auto pool = MakePool(4 * kMiB);
  Room room(pool.get());
  FillAndEvict(*pool, 1);  // and they stay withdrawing
  const TimePoint deadline = Clock::now() + 100ms;
  EXPECT_EQ(room.Reserve(kLength, deadline).status().code(), Code::kResourceExhausted);
  EXPECT_GE(Clock::now(), deadline);
  EXPECT_EQ(room.AwaitWishes(0s)[kLength].refused, kLength);
}

TEST(Room, RefusesAtOnceWhenNoSlotCanComeInTime) {
  auto pool = MakePool(4 * kMiB);
  Room room(pool.get());
  pool->Quarantine(FillAndEvict(*pool, 1).at(0), Clock::now() + 120s);
  const TimePoint start = Clock::now();
  std::jthread upkeep([&](std::stop_token stopping) {  // finds nothing to free
    while (!stopping.stop_requested()) (void)room.AwaitWishes(10ms);
  });
  EXPECT_FALSE(room.Reserve(kLength, start + 60s).ok());
  EXPECT_LT(Clock::now(), start + 30s);
  EXPECT_EQ(room.stats().hopeless, 1u);
}

// A slot that nobody needs to wait for may come at once: whoever makes room is asked first.
TEST(Room, IsNotRefusedBeforeWhoeverMakesRoomHasTried) {
  auto pool = MakePool(4 * kMiB);
  Room room(pool.get());
  auto victims = FillAndEvict(*pool, 2);
  pool->Quarantine(victims.at(0), Clock::now() + 120s);
  std::thread upkeep([&] {
    EXPECT_FALSE(room.AwaitWishes(60s).empty());
    std::this_thread::sleep_for(50ms);
    pool->Quarantine(victims.at(1), Clock::now() - 1ms);
    EXPECT_GT(pool->Reclaim(Clock::now()), 0u);
    room.Freed();
  });
  EXPECT_TRUE(room.Reserve(kLength, Clock::now() + 60s).ok());
  EXPECT_EQ(room.stats().hopeless, 0u);
  upkeep.join();
}

TEST(Room, WhoeverMakesRoomIsToldWhenTheSlackIsUsedUp) {
  auto pool = MakePool(4 * kMiB);
  Room room(pool.get());
  room.SetSlack(3 * kLength);
  std::vector<Reservation> held;
  const auto take = [&] {
    auto slot = room.Reserve(kLength, Clock::now());
    ASSERT_TRUE(slot.ok());
    held.push_back(std::move(*slot));
  };
  take();
  take();
  TimePoint start = Clock::now();
  EXPECT_TRUE(room.AwaitWishes(50ms).empty());
  EXPECT_GE(Clock::now(), start + 50ms) << "a third of it is left";
  std::jthread sets([&] {
    const size_t lengths[] = {kLength, kLength};
    Reservation slots[2];
    room.ReserveFree(lengths, slots);
  });
  EXPECT_TRUE(room.AwaitWishes(60s).empty());
  EXPECT_LT(Clock::now(), start + 30s);
  start = Clock::now();
  EXPECT_TRUE(room.AwaitWishes(50ms).empty());
  EXPECT_GE(Clock::now(), start + 50ms) << "told once";
}

TEST(Room, StopEndsEveryWait) {
  auto pool = MakePool(4 * kMiB);
  Room room(pool.get());
  FillAndEvict(*pool, 1);
  std::thread waiting([&] { EXPECT_FALSE(room.Reserve(kLength, Clock::now() + 60s).ok()); });
  while (room.stats().waits == 0) std::this_thread::yield();
  room.Stop();
  waiting.join();
  EXPECT_TRUE(room.AwaitWishes(60s).size() <= 1);
}

TEST(Room, SetsKeepToThePace) {
  auto pool = MakePool(16 * kMiB);
  Room room(pool.get());
  room.SetPace(100.0 * kLength);  // 10 ms each
  const TimePoint start = Clock::now();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(room.Reserve(kLength, Clock::now() + 60s).ok());
  EXPECT_GE(Clock::now() - start, 180ms);
  EXPECT_GT(room.stats().paced, 10u);
  // One that would have to wait for longer than it may is refused before it waits.
  room.SetPace(kLength / 60.0);
  for (int i = 0; i < 2; ++i) (void)room.Reserve(kLength, Clock::now()).ok();
  const TimePoint before = Clock::now();
  EXPECT_EQ(room.Reserve(kLength, before + 20s).status().code(), Code::kResourceExhausted);
  EXPECT_LT(Clock::now(), before + 15s);
  room.SetPace(0);
  EXPECT_TRUE(room.Reserve(kLength, Clock::now()).ok());
}

TEST(Room, LoadsAreNeitherPacedNorCounted) {
  auto pool = MakePool(4 * kMiB);
  Room room(pool.get());
  room.SetPace(kLength / 60.0);  // a minute each
  const TimePoint start = Clock::now();
  std::vector<Reservation> taken;
  for (int i = 0; i < 4; ++i) {
    auto slot = room.Reserve(kLength, start + 60s, 0, Room::For::kLoad);
    ASSERT_TRUE(slot.ok());
    taken.push_back(std::move(*slot));
  }
  const size_t lengths[] = {kLength, kLength};
  Reservation slots[2];
  room.ReserveFree(lengths, slots, Room::For::kLoad);
  EXPECT_TRUE(slots[0] && slots[1]);
  EXPECT_TRUE(room.Reserve(kLength, start + 60s).ok()) << "the first set is not behind them";
  FillAndEvict(*pool, 1);  // and they stay withdrawing
  EXPECT_FALSE(room.Reserve(kLength, Clock::now() + 50ms, 0, Room::For::kLoad).ok());
  EXPECT_FALSE(room.AwaitWishes(0s).empty()) << "whoever makes room is told all the same";
  EXPECT_LT(Clock::now(), start + 30s);
  const RoomStats stats = room.stats();
  EXPECT_EQ(stats.paced + stats.waits + stats.hopeless, 0u);
  EXPECT_EQ(stats.stalled, Duration::zero());
}

TEST(Room, AFasterPaceShortensWhatWasPromised) {
  auto pool = MakePool(16 * kMiB);
  Room room(pool.get());
  room.SetPace(kLength / 100.0);
  ASSERT_TRUE(room.Reserve(kLength, Clock::now()).ok());  // the next one's turn is in 100 s
  room.SetPace(kLength * 100.0);
  const TimePoint start = Clock::now();
  EXPECT_TRUE(room.Reserve(kLength, start + 20s).ok());
  EXPECT_LT(Clock::now(), start + 15s);
}

nlohmann::json StatusOf(Node& node) { return nlohmann::json::parse(node.StatusJson()); }

// Sets `batch` pages, of which an engine on another node hears at once.
size_t SetAndTell(TestEngine& writer, TestEngine& other, uint64_t first, size_t batch) {
  const size_t stored = writer.Set(first, batch);
  (void)other.Exists(first, batch);
  return stored;
}

// Slots that rested would let 4 MiB through every two seconds, or have sets refused.
TEST(FullPool, UniquePagesThatNobodyWasToldOfAreNeitherRefusedNorSlowed) {
  constexpr Duration kLease = 2s;
  TestCluster cluster([=](NodeConfig* c) {
    c->pool_bytes = 16 * kMiB;
    c->lease = std::chrono::duration_cast<milliseconds>(kLease);
    c->peer_timeout = 10s;  // a peer that is slow under a sanitizer has not failed
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  // Until then a former process of the node may have left something behind.
  std::this_thread::sleep_for(Padded(cluster.Config("c").member_ttl) + Padded(kLease));
  TestEngine writer(a->socket(), 32, kLength);
  constexpr uint64_t kCalls = 100;
  const TimePoint start = Clock::now();
  for (uint64_t n = 0; n < kCalls; ++n) EXPECT_EQ(writer.Set(32 * n, 32), 32u) << n;
  EXPECT_LT(Clock::now() - start, 40s) << "half of the least with resting slots";
  EXPECT_EQ(TestEngine(b->socket(), 32, kLength).Get(32 * (kCalls - 1), 32).hits, 32u);
}

TEST(FullPool, SetsAreRefusedAtOnceAndReadsGoOn) {
  TestCluster cluster([](NodeConfig* c) {
    c->pool_bytes = 16 * kMiB;
    c->lease = 20s;  // no evicted slot that somebody may read comes back during this test
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 32, kLength), here(a->socket(), 32, kLength),
      there(b->socket(), 32, kLength), told(b->socket(), 32, kLength);
  ASSERT_EQ(SetAndTell(writer, told, 0, 32), 32u);
  std::atomic<uint64_t> refused{0};
  std::jthread writing([&](std::stop_token stopping) {
    for (uint64_t n = 1; !stopping.stop_requested(); ++n)
      refused += 32 - SetAndTell(writer, told, 1000 * n, 32);
  });
  ASSERT_TRUE(Eventually(20s, [&] { return refused > 200; }));
  // Pages that are not among the oldest quarter are still there, and reading them does not wait for
  // what sets wait for.
  std::vector<Duration> times;
  for (int i = 0; i < 50; ++i) {
    for (TestEngine* reader : {&here, &there}) {
      const TimePoint start = Clock::now();
      const auto got = reader->Get(3000, 32);
      ASSERT_EQ(got.hits, 32u);
      ASSERT_EQ(got.wrong, 0u);
      times.push_back(Clock::now() - start);
    }
  }
  // A busy machine may be late with some.
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  EXPECT_LT(times[50], 1s);
  EXPECT_GT(StatusOf(*a)["pool"]["set_stall_seconds"].get<double>(), 0.0);
}

TEST(FullPool, AWriterThatIsTooFastIsSlowedRatherThanRefused) {
  constexpr size_t kPool = 32 * kMiB, kAsked = 3 * kPool / kLength;
  constexpr Duration kLease = 2s;
  TestCluster cluster([=](NodeConfig* c) {
    c->pool_bytes = kPool;
    c->lease = std::chrono::duration_cast<milliseconds>(kLease);
    c->peer_timeout = 10s;  // sets may wait longer than the pool needs
  });
  auto a = cluster.Start("a");
  auto b = cluster.Start("b");
  TestEngine writer(a->socket(), 8, kLength), told(b->socket(), 8, kLength);
  uint64_t stored = 0;
  const TimePoint start = Clock::now();
  for (uint64_t n = 0; n < kAsked; n += 8) stored += SetAndTell(writer, told, n, 8);
  const std::chrono::duration<double> took = Clock::now() - start;
  const double stalled = StatusOf(*a)["pool"]["set_stall_seconds"];
  std::cout << stored << " of " << kAsked << " pages stored; stalled for " << stalled << " of "
            << took.count() << " s\n";
  EXPECT_GT(stored, 2 * kPool / kLength);
  EXPECT_GT(stored, kAsked - kAsked / 10);
  // The pool takes its size at once, and again in each lease. A machine may be slower than that.
  const std::chrono::duration<double> takes = (kAsked * kLength / kPool - 1) * kLease;
  if (took.count() - stalled < takes.count() - 0.5) {
    EXPECT_GT(stalled, 0.1);
  }
}

}  // namespace
}  // namespace peercache
