// Many threads on one pool for a bounded time. Whatever a pin covers must be the page of its key
// from the first look to the last; under ThreadSanitizer any write to a pinned page is a report
// besides.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "pool/pool_testing.h"

namespace peercache {
namespace {

constexpr uint64_t kKeys = 600;
constexpr size_t kLengths[] = {5000, 30000, 64 * kKiB, 200 * kKiB};
// Long enough to have seen everything, on a fast machine and on one that is overloaded.
constexpr auto kAtLeast = std::chrono::seconds(2), kAtMost = std::chrono::seconds(40);
constexpr milliseconds kLease{1};

class Stress {
 public:
  explicit Stress(EvictionPolicy eviction) : pool(MakePool(16 * kMiB, 64 * kMiB, eviction)) {}
  void Run() {
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 3; ++i) threads.emplace_back([this, i] { Write(i); });
    for (uint64_t i = 0; i < 3; ++i) threads.emplace_back([this, i] { Read(100 + i); });
    threads.emplace_back([this] { Keep(); });
    for (auto& thread : threads) thread.join();
    std::cout << committed << " committed, " << found << " found by key, " << found_at
              << " by record, " << stale << " records stale, " << reclaimed << " bytes reclaimed\n";
    EXPECT_EQ(wrong, 0u);
    EXPECT_TRUE(SeenEnough());

    // Afterwards nothing is left behind: everything can be taken, reclaimed, and used for one page.
    for (size_t length : kLengths) Withdraw(pool->TakeVictims(SIZE_MAX, length));
    pool->Reclaim(Clock::now() + std::chrono::hours(1));
    EXPECT_EQ(pool->stats().used_bytes, 0u);
    EXPECT_EQ(pool->stats().quarantined_bytes, 0u);
    EXPECT_TRUE(pool->Reserve(pool->max_page_bytes()).ok());
  }

 private:
  struct Record {
    uint64_t offset = 0, generation = 0, number = 0;
  };
  void Withdraw(const std::vector<Victim>& victims) {
    for (const Victim& victim : victims) pool->Quarantine(victim, Clock::now() + kLease);
  }
  bool SeenEnough() const {
    return committed > 500 && found > 100 && found_at > 100 && stale > 20 &&
           reclaimed > pool->size();
  }
  bool Running() const {
    const Duration elapsed = Clock::now() - start;
    return elapsed < kAtLeast || (!SeenEnough() && elapsed < kAtMost);
  }
  void Check(const PagePin& pin, uint64_t number) {
    const Key key = KeyOf(number);
    if (!IsPageOf(pin, key)) ++wrong;
    std::this_thread::yield();
    if (!IsPageOf(pin, key)) ++wrong;
  }

  void Write(uint64_t seed) {
    std::mt19937_64 random(seed);
    while (Running()) {
      const uint64_t number = random() % kKeys;
      const size_t length = kLengths[number % std::size(kLengths)];
      auto reservation = pool->Reserve(length);
      if (!reservation.ok()) {
        Withdraw(pool->TakeVictims(length * 4, length));
        std::this_thread::sleep_for(kLease);
        reclaimed += pool->Reclaim(Clock::now());
        continue;
      }
      Fill(reservation->payload(), KeyOf(number));
      if (random() % 10 == 0) continue;  // abort
      bool duplicate = false;
      PagePin pin =
          pool->Commit(std::move(reservation).value(), KeyOf(number), number % 7, 0, &duplicate);
      Check(pin, number);
      pool->AddPublishedTo(pin.offset(), pin.header().generation, 1);
      ++committed;
      std::lock_guard lock(mutex);
      records[random() % records.size()] = {pin.offset(), pin.header().generation, number};
    }
  }
  void Read(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Key> keys(16);
    std::vector<PagePin> pins(16);
    std::vector<uint64_t> numbers(16);
    while (Running()) {
      const uint64_t number = random() % kKeys;
      if (PagePin pin = pool->Find(KeyOf(number))) {
        Check(pin, number);
        ++found;
      }
      Record record;
      {
        std::lock_guard lock(mutex);
        record = records[random() % records.size()];
      }
      if (PagePin pin = pool->FindAt(record.offset, record.generation, KeyOf(record.number))) {
        Check(pin, record.number);
        ++found_at;
      } else {
        ++stale;
      }
      for (size_t i = 0; i < keys.size(); ++i) keys[i] = KeyOf(numbers[i] = random() % kKeys);
      pool->FindMany(keys, pins);
      for (size_t i = 0; i < keys.size(); ++i)
        if (pins[i]) Check(pins[i], numbers[i]);
      for (PagePin& pin : pins) pin.Release();
    }
  }
  // What a node does in the background, and what its status page asks.
  void Keep() {
    std::mt19937_64 random(7);
    while (Running()) {
      reclaimed += pool->Reclaim(Clock::now());
      const PoolStats stats = pool->stats();
      if (stats.used_bytes + stats.quarantined_bytes + stats.free_bytes > stats.capacity_bytes)
        ++wrong;
      pool->FreeBytes(kLengths[random() % std::size(kLengths)]);
      pool->ForEachReady([&](const PageInfo& page) {
        pool->RemovePublishedTo(page.offset, page.generation, 1, 0);
        if (pool->Contains(page.key) && page.generation == 0) ++wrong;
      });
      if (random() % 20 == 0) {
        size_t busy = 0;
        Withdraw(pool->TakeTagged(random() % 7, &busy));
      }
      std::this_thread::sleep_for(kLease);
    }
  }

  const std::unique_ptr<Pool> pool;
  const TimePoint start = Clock::now();
  std::mutex mutex;
  std::vector<Record> records = std::vector<Record>(64);
  std::atomic<uint64_t> wrong = 0, committed = 0, found = 0, found_at = 0, stale = 0, reclaimed = 0;
};

TEST(PoolStress, NoPinnedPageEverChanges) { Stress(EvictionPolicy::kLru).Run(); }
TEST(PoolStress, NoPinnedPageEverChangesWithS3Fifo) { Stress(EvictionPolicy::kS3Fifo).Run(); }

}  // namespace
}  // namespace peercache
