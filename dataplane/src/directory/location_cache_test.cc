#include "directory/location_cache.h"

#include <gtest/gtest.h>

#include <thread>

namespace peercache {
namespace {

using std::chrono::seconds;

Key KeyOf(uint64_t number) {
  Key key;
  std::memcpy(key.bytes.data() + 8, &number, sizeof(number));
  return key;
}
Record RecordOn(uint64_t node) {
  Record record;
  record.node = node;
  return record;
}

TEST(LocationCacheTest, AnswersUntilTheLeaseIsOver) {
  TimePoint until{};
  LocationCache cache(1000);
  const TimePoint now = Clock::now();
  EXPECT_EQ(cache.Find(KeyOf(1), now, &until).node, 0u);
  cache.Put(KeyOf(1), RecordOn(7), now + seconds(1));
  EXPECT_EQ(cache.Find(KeyOf(1), now, &until).node, 7u);
  EXPECT_EQ(cache.Find(KeyOf(1), now + seconds(1), &until).node, 0u);
  EXPECT_EQ(cache.Find(KeyOf(2), now, &until).node, 0u);
}

TEST(LocationCacheTest, TheNewestRecordOfAKeyCounts) {
  TimePoint until{};
  LocationCache cache(1000);
  const TimePoint now = Clock::now();
  cache.Put(KeyOf(1), RecordOn(7), now + seconds(2));
  cache.Put(KeyOf(1), RecordOn(8), now + seconds(1));
  EXPECT_EQ(cache.Find(KeyOf(1), now, &until).node, 8u);
  EXPECT_EQ(cache.Find(KeyOf(1), now + seconds(1), &until).node, 0u) << "the older one is gone";
}

TEST(LocationCacheTest, ForgetsOneOrAll) {
  TimePoint until{};
  LocationCache cache(1000);
  const TimePoint now = Clock::now();
  for (uint64_t i = 0; i < 100; ++i) cache.Put(KeyOf(i), RecordOn(i + 1), now + seconds(1));
  cache.Forget(KeyOf(3));
  EXPECT_EQ(cache.Find(KeyOf(3), now, &until).node, 0u);
  EXPECT_EQ(cache.Find(KeyOf(4), now, &until).node, 5u);
  cache.Clear();
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(cache.Find(KeyOf(i), now, &until).node, 0u);
}

TEST(LocationCacheTest, WhatEndsFirstGivesWay) {
  TimePoint until{};
  LocationCache cache(256);  // 64 buckets of 4
  const TimePoint now = Clock::now();
  for (uint64_t i = 0; i < 5; ++i)
    cache.Put(KeyOf(i * 64), RecordOn(i + 1), now + seconds(10 - static_cast<int>(i)));
  EXPECT_EQ(cache.Find(KeyOf(3 * 64), now, &until).node, 0u)
      << "it ended first when the fifth came";
  for (const uint64_t i : {0, 1, 2, 4})
    EXPECT_EQ(cache.Find(KeyOf(i * 64), now, &until).node, i + 1);
}

TEST(LocationCacheTest, WithoutEntriesNothingIsRemembered) {
  TimePoint until{};
  LocationCache cache(0);
  cache.Put(KeyOf(1), RecordOn(7), Clock::now() + seconds(1));
  EXPECT_EQ(cache.Find(KeyOf(1), Clock::now(), &until).node, 0u);
  cache.Forget(KeyOf(1));
  cache.Clear();
}

TEST(LocationCacheTest, ThreadsSeeWholeRecords) {
  LocationCache cache(256);
  const TimePoint end = Clock::now() + seconds(1);
  std::thread threads[4];
  for (uint64_t t = 0; t < 4; ++t) {
    threads[t] = std::thread([&, t] {
      TimePoint until{};
      for (uint64_t i = 0; i < 20000; ++i) {
        const uint64_t n = i % 300;
        if (t % 2 == 0) {
          Record record = RecordOn(n + 1);
          record.offset = n;
          cache.Put(KeyOf(n), record, end);
        } else if (const Record r = cache.Find(KeyOf(n), Clock::now(), &until); r.node != 0) {
          EXPECT_EQ(r.node, n + 1);
          EXPECT_EQ(r.offset, n);
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace peercache
