// The shard under many threads: what TSan should see, and what must hold of every answer.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "directory/shard.h"

namespace peercache {
namespace {

constexpr uint64_t kOwners = 3, kKeys = 64;

Key KeyOf(uint64_t n) {
  Key key;
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t word = (n + 1) * (0x9e3779b97f4a7c15 + 2 * i);
    std::memcpy(key.bytes.data() + 8 * i, &word, sizeof(word));
  }
  return key;
}

// Each owner publishes all keys with generation = epoch, then withdraws or raises the epoch. A
// lookup that began after an epoch was acknowledged must not see a record of a lower one.
TEST(ShardThreads, NoLookupSeesARecordOfAnEpochThatWasOverBeforeItBegan) {
  Shard shard({.self = 1, .max_records = kOwners * kKeys, .max_owners = 8});
  std::atomic<uint64_t> acknowledged[kOwners] = {};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> hits{0};

  std::vector<std::thread> owners;
  for (uint64_t o = 0; o < kOwners; ++o) {
    owners.emplace_back([&, o] {
      uint64_t sequence = 0;
      for (uint64_t epoch = 1; epoch <= 300; ++epoch) {
        int64_t heard = shard.Voice(o + 10, Clock::now()).stamp;
        const auto stamp = [&] {
          return OwnerStamp{.node = o + 10,
                            .incarnation = 1,
                            .epoch = epoch,
                            .echo = heard,
                            .sequence = ++sequence,
                            .ttl_ms = 3000};
        };
        ASSERT_TRUE(shard.Contact(stamp(), Clock::now()).ok());
        acknowledged[o].store(epoch);
        heard = shard.Voice(o + 10, Clock::now()).stamp;
        std::vector<PublishItem> items;
        for (uint64_t k = 0; k < kKeys; ++k)
          items.push_back(
              {KeyOf(k), Record{.node = o + 10, .incarnation = 1, .generation = epoch}});
        std::vector<uint8_t> outcome(items.size());
        ASSERT_TRUE(shard.Publish(stamp(), items, outcome, Clock::now()).ok());
        if (epoch % 3 == 0) {
          std::vector<WithdrawItem> gone;
          for (uint64_t k = 0; k < kKeys; ++k) gone.push_back({KeyOf(k), epoch});
          ASSERT_TRUE(shard.Withdraw(stamp(), gone, Clock::now()).ok());
        }
        if (epoch > 1) {  // a late message of the former epoch, from another thread
          OwnerStamp late = stamp();
          --late.epoch;
          std::thread([&, late] {
            std::vector<uint8_t> refused(items.size());
            EXPECT_EQ(shard.Publish(late, items, refused, Clock::now()).code(), Code::kAborted);
          }).join();
        }
      }
    });
  }
  std::vector<std::thread> others;
  for (uint64_t r = 0; r < 2; ++r) {
    others.emplace_back([&, r] {
      std::vector<Key> keys;
      for (uint64_t k = 0; k < kKeys; ++k) keys.push_back(KeyOf(k));
      std::vector<Record> out(kKeys);
      while (!stop.load()) {
        uint64_t floor[kOwners];
        for (uint64_t o = 0; o < kOwners; ++o) floor[o] = acknowledged[o].load();
        shard.Lookup(keys, 100 + r, {}, out, Clock::now());
        for (const Record& record : out) {
          if (record.node == 0) continue;
          ASSERT_GE(record.generation, floor[record.node - 10]);
          hits.fetch_add(1, std::memory_order_relaxed);
        }
      }
    });
  }
  others.emplace_back([&] {
    while (!stop.load()) {
      shard.Expire(Clock::now());
      shard.stats(Clock::now());
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : owners) thread.join();
  stop.store(true);
  for (std::thread& thread : others) thread.join();
  shard.Expire(Clock::now());
  EXPECT_GT(hits.load(), 0u);
  EXPECT_LE(shard.stats(Clock::now()).records, kOwners * kKeys);
}

}  // namespace
}  // namespace peercache
