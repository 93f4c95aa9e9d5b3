#include "directory/location_cache.h"

#include <gtest/gtest.h>

#include <thread>

namespace peercache {
namespace {

using std::chrono::seconds;

Key KeyOf(uint64_t number) {
  Key key;
  for (const size_t word : {1, 3})  // the bucket, and what tells keys of a bucket apart
    std::memcpy(key.bytes.data() + 8 * word, &number, sizeof(number));
  return key;
}
Record RecordOn(uint64_t node, uint16_t lease_ms = 60'000) {
  Record record;
  record.node = node;
  record.lease_ms = lease_ms;
  return record;
}

// One key at a time, as most tests here want it.
class Cache : public LocationCache {
 public:
  using LocationCache::Find;
  using LocationCache::LocationCache;
  using LocationCache::Put;
  Record Find(const Key& key, TimePoint now) const {
    Record record;
    TimePoint until{};
    Find({&key, 1}, {&record, 1}, {&until, 1}, now);
    EXPECT_EQ(record.node != 0, until > now);
    return record;
  }
  void Put(const Key& key, const Record& record, TimePoint asked_at, Duration ttl) {
    Put({&key, 1}, {&record, 1}, asked_at, ttl);
  }
};

TEST(LocationCacheTest, AnswersUntilTheTimeIsOver) {
  Cache cache(1000);
  const TimePoint now = Clock::now();
  EXPECT_EQ(cache.Find(KeyOf(1), now).node, 0u);
  cache.Put(KeyOf(1), RecordOn(7), now, seconds(1));
  EXPECT_EQ(cache.Find(KeyOf(1), now + milliseconds(999)).node, 7u);
  EXPECT_EQ(cache.Find(KeyOf(1), now + seconds(1)).node, 0u);
  EXPECT_EQ(cache.Find(KeyOf(2), now).node, 0u);
}

TEST(LocationCacheTest, ALongerTimeThanTheHoldersLeaseIsCut) {
  Cache cache(1000);
  const TimePoint now = Clock::now();
  cache.Put(KeyOf(1), RecordOn(7, 50), now, seconds(60));
  EXPECT_EQ(cache.Find(KeyOf(1), now + milliseconds(49)).node, 7u);
  EXPECT_EQ(cache.Find(KeyOf(1), now + milliseconds(50)).node, 0u);
}

TEST(LocationCacheTest, TheNewestRecordOfAKeyCounts) {
  Cache cache(1000);
  const TimePoint now = Clock::now();
  cache.Put(KeyOf(1), RecordOn(7), now, seconds(2));
  cache.Put(KeyOf(1), RecordOn(8), now, seconds(1));
  EXPECT_EQ(cache.Find(KeyOf(1), now).node, 8u);
  EXPECT_EQ(cache.Find(KeyOf(1), now + seconds(1)).node, 0u) << "the older one is gone";
}

// More than one block of them, of all stripes.
TEST(LocationCacheTest, OfManyThoseThatWereFoundAreRemembered) {
  LocationCache cache(4000);
  const TimePoint now = Clock::now();
  std::vector<Key> keys;
  std::vector<Record> records;
  for (uint64_t i = 0; i < 600; ++i) {
    keys.push_back(KeyOf(i));
    records.push_back(i % 3 == 0 ? Record{} : RecordOn(i + 1));
  }
  cache.Put(keys, records, now, seconds(1));
  std::vector<Record> found(keys.size(), RecordOn(99));
  std::vector<TimePoint> until(keys.size());
  EXPECT_EQ(cache.Find(keys, found, until, now), 400u);
  for (uint64_t i = 0; i < 600; ++i) {
    EXPECT_EQ(found[i].node, i % 3 == 0 ? 0 : i + 1);
    EXPECT_EQ(until[i], i % 3 == 0 ? TimePoint{} : now + seconds(1));
  }
}

TEST(LocationCacheTest, ForgetsOneOrAll) {
  Cache cache(1000);
  const TimePoint now = Clock::now();
  for (uint64_t i = 0; i < 100; ++i) cache.Put(KeyOf(i), RecordOn(i + 1), now, seconds(1));
  cache.Forget(KeyOf(3));
  EXPECT_EQ(cache.Find(KeyOf(3), now).node, 0u);
  EXPECT_EQ(cache.Find(KeyOf(4), now).node, 5u);
  cache.Clear();
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(cache.Find(KeyOf(i), now).node, 0u);
}

TEST(LocationCacheTest, WhatEndsFirstGivesWay) {
  Cache cache(256);  // 64 buckets of 4
  const TimePoint now = Clock::now();
  for (uint64_t i = 0; i < 5; ++i)
    cache.Put(KeyOf(i * 64), RecordOn(i + 1), now, seconds(10 - static_cast<int>(i)));
  EXPECT_EQ(cache.Find(KeyOf(3 * 64), now).node, 0u) << "it ended first when the fifth came";
  for (const uint64_t i : {0, 1, 2, 4}) EXPECT_EQ(cache.Find(KeyOf(i * 64), now).node, i + 1);
}

TEST(LocationCacheTest, OfKeysThatLookAlikeTheNewestIsKnown) {
  Cache cache(256);
  const TimePoint now = Clock::now();
  Key other = KeyOf(1);
  other.bytes[0] = 1;  // same bucket, same Word(3)
  cache.Put(KeyOf(1), RecordOn(7), now, seconds(1));
  EXPECT_EQ(cache.Find(other, now).node, 0u);
  cache.Put(other, RecordOn(8), now, seconds(1));
  EXPECT_EQ(cache.Find(other, now).node, 8u);
  EXPECT_EQ(cache.Find(KeyOf(1), now).node, 0u);
}

TEST(LocationCacheTest, WithoutEntriesNothingIsRemembered) {
  Cache cache(0);
  cache.Put(KeyOf(1), RecordOn(7), Clock::now(), seconds(1));
  EXPECT_EQ(cache.Find(KeyOf(1), Clock::now()).node, 0u);
  cache.Forget(KeyOf(1));
  cache.Clear();
}

TEST(LocationCacheTest, ThreadsSeeWholeRecords) {
  Cache cache(256);
  const TimePoint start = Clock::now();
  std::thread threads[4];
  for (uint64_t t = 0; t < 4; ++t) {
    threads[t] = std::thread([&, t] {
      for (uint64_t i = 0; i < 20000; ++i) {
        const uint64_t n = i % 300;
        if (t % 2 == 0) {
          Record record = RecordOn(n + 1);
          record.offset = n;
          cache.Put(KeyOf(n), record, start, seconds(60));
        } else if (const Record r = cache.Find(KeyOf(n), Clock::now()); r.node != 0) {
          EXPECT_EQ(r.node, n + 1);
          EXPECT_EQ(r.offset, n);
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(LocationCacheTest, KeepsNothingOfALookupThatBeganBeforeAClear) {
  LocationCache cache(64);
  const TimePoint now = Clock::now();
  const Key key = KeyOf(1);
  const Record record = RecordOn(7);
  const uint64_t before = cache.era();
  cache.Clear();
  cache.Put({&key, 1}, {&record, 1}, now, seconds(1), before);
  Record found;
  TimePoint until;
  EXPECT_EQ(cache.Find({&key, 1}, {&found, 1}, {&until, 1}, now), 0u);
  cache.Put({&key, 1}, {&record, 1}, now, seconds(1), cache.era());
  EXPECT_EQ(cache.Find({&key, 1}, {&found, 1}, {&until, 1}, now), 1u);
}

}  // namespace
}  // namespace peercache
