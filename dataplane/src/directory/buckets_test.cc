// The buckets of a shard: they say what a lookup by request would, or that it is to be asked.
#include "directory/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "directory/bucket_lookup.h"
#include "directory/shard.h"

namespace peercache {
namespace {

constexpr uint64_t kReader = 999, kIncarnation = 5, kUntouched = 0xa5a5;
constexpr uint64_t kBuckets = 64;  // the fewest

Key KeyAt(uint64_t bucket, uint64_t n) {
  Key key;
  const uint64_t words[4] = {n * 7919, n * 104729 + 1, bucket, n};
  std::memcpy(key.bytes.data(), words, sizeof(words));
  return key;
}

struct Reader {
  uint64_t node = kReader;
  std::vector<uint64_t> exclude{};
};

// A shard with buckets, and owners that speak to it.
class World {
 public:
  explicit World(size_t bytes = kBuckets * sizeof(Bucket)) : memory(bytes / sizeof(Bucket) + 1) {
    memory.back().checksum = memory.back().entries.back().generation = kUntouched;
    options.self = 1;
    options.buckets = std::as_writable_bytes(std::span(memory)).first(bytes);
    shard = std::make_unique<Shard>(options);
  }

  OwnerStamp Stamp(uint64_t owner) {
    return {.node = owner,
            .incarnation = 1,
            .epoch = epochs[owner] + 1,
            .echo = shard->Voice(owner, now).stamp,
            .sequence = 0,
            .ttl_ms = 3000,
            .lease_ms = 1000};
  }
  void Greet(uint64_t owner) { (void)shard->Contact(Stamp(owner), now); }
  uint8_t Publish(uint64_t owner, const Key& key, uint64_t generation, uint8_t replica = 0) {
    const PublishItem item{key, Record{.node = owner,
                                       .incarnation = 1,
                                       .offset = generation * 64,
                                       .generation = generation,
                                       .checksum = generation + 1,
                                       .length = 4096,
                                       .replica = replica}};
    uint8_t outcome = kRefused;
    EXPECT_TRUE(shard->Publish(Stamp(owner), {&item, 1}, {&outcome, 1}, now).ok());
    return outcome;
  }
  void Withdraw(uint64_t owner, const Key& key, uint64_t generation) {
    const WithdrawItem item{key, generation};
    EXPECT_TRUE(shard->Withdraw(Stamp(owner), {&item, 1}, now).ok());
  }
  Grant Ask() const { return {shard->Directory(now), kIncarnation, now, options.owner_ttl}; }
  std::span<const std::byte> BytesOf(const Key& key) const {
    return std::as_bytes(std::span(&memory[BucketOf(key, shard->Directory(now).buckets)], 1));
  }
  BucketAnswer LookUp(const Key& key, const Grant& grant, Record* record,
                      const Reader& reader = {}) const {
    return LookUpIn(BytesOf(key), grant, key, reader.node, reader.exclude, now, record);
  }
  BucketAnswer LookUp(const Key& key) const {
    Record record;
    return LookUp(key, Ask(), &record);
  }
  Record ByRequest(const Key& key, const Reader& reader = {}) const {
    Record record;
    shard->Lookup({&key, 1}, reader.node, reader.exclude, {&record, 1}, now);
    return record;
  }

  ShardOptions options;
  std::vector<Bucket> memory;  // the last one is not the shard's
  std::unique_ptr<Shard> shard;
  TimePoint now{std::chrono::hours(1)};
  std::map<uint64_t, uint64_t> epochs;
};

TEST(BucketsTest, SayWhatALookupByRequestSays) {
  World world;
  const Key key = KeyAt(3, 1);
  EXPECT_EQ(world.LookUp(key), BucketAnswer::kAbsent) << "never written";
  world.Greet(7);
  ASSERT_EQ(world.Publish(7, key, 11), kServed);
  Record record;
  ASSERT_EQ(world.LookUp(key, world.Ask(), &record), BucketAnswer::kFound);
  EXPECT_EQ(record, world.ByRequest(key));
  EXPECT_EQ(world.LookUp(KeyAt(3, 2)), BucketAnswer::kAbsent);
  EXPECT_EQ(world.LookUp(KeyAt(4, 1)), BucketAnswer::kAbsent);
}

TEST(BucketsTest, NameTheOtherHoldersAsALookupByRequestDoes) {
  World world;
  const Key key = KeyAt(3, 1);
  for (const uint64_t owner : {7, 8, 9}) {
    world.Greet(owner);
    ASSERT_EQ(world.Publish(owner, key, owner), kServed);
  }
  const auto sorted = [](const Record& best, const std::vector<OtherRecord>& others) {
    std::map<uint64_t, uint64_t> generations{{best.node, best.generation}};
    for (const OtherRecord& other : others) {
      EXPECT_EQ(other.index, 0u);
      generations[other.record.node] = other.record.generation;
    }
    return generations;
  };
  Record seen, said;
  std::vector<OtherRecord> seen_others, said_others;
  ASSERT_EQ(
      LookUpIn(world.BytesOf(key), world.Ask(), key, kReader, {}, world.now, &seen, &seen_others),
      BucketAnswer::kFound);
  world.shard->Lookup({&key, 1}, kReader, {}, {&said, 1}, world.now, &said_others);
  EXPECT_EQ(seen, said);
  EXPECT_EQ(seen_others.size(), 2u);
  EXPECT_EQ(sorted(seen, seen_others), sorted(said, said_others));
}

TEST(BucketsTest, WhatIsWithdrawnIsGoneWhenWithdrawReturns) {
  World world;
  const Key key = KeyAt(3, 1);
  world.Greet(7);
  world.Publish(7, key, 11);
  const Grant grant = world.Ask();
  world.Withdraw(7, key, 10);
  Record record;
  EXPECT_EQ(world.LookUp(key, grant, &record), BucketAnswer::kFound) << "another generation";
  world.Withdraw(7, key, 11);
  EXPECT_EQ(world.LookUp(key, grant, &record), BucketAnswer::kAbsent);
}

TEST(BucketsTest, ANewerPageOfTheKeyTakesThePlaceOfTheOlder) {
  World world;
  const Key key = KeyAt(3, 1);
  world.Greet(7);
  world.Publish(7, key, 11);
  world.Publish(7, key, 12);
  Record record;
  ASSERT_EQ(world.LookUp(key, world.Ask(), &record), BucketAnswer::kFound);
  EXPECT_EQ(record.generation, 12u);
  world.Withdraw(7, key, 12);
  EXPECT_EQ(world.LookUp(key), BucketAnswer::kAbsent) << "the older one is there still";
}

// Any mixture of two versions of a bucket, by lines as a device reads them.
TEST(BucketsTest, ATornBucketIsNoAnswer) {
  World world;
  const Key key = KeyAt(3, 1), other = KeyAt(3, 2);
  world.Greet(7);
  const auto copy = [&] { return world.memory[3]; };
  const Bucket empty = copy();
  world.Publish(7, key, 11);
  const Bucket first = copy();
  world.Publish(7, other, 12);
  const Bucket second = copy();
  world.Withdraw(7, key, 11);
  const Bucket third = copy();
  const Grant grant = world.Ask();
  constexpr size_t kLine = 64, kLines = sizeof(Bucket) / kLine;
  int torn = 0;
  for (const auto& [before, after] :
       {std::pair(&empty, &first), {&first, &second}, {&second, &third}, {&empty, &third}}) {
    for (unsigned mixture = 0; mixture < (1u << kLines); ++mixture) {
      std::array<std::byte, sizeof(Bucket)> seen;
      for (size_t line = 0; line < kLines; ++line) {
        const Bucket* from = (mixture >> line & 1) != 0 ? after : before;
        std::memcpy(&seen[line * kLine], reinterpret_cast<const std::byte*>(from) + line * kLine,
                    kLine);
      }
      const bool whole = std::memcmp(seen.data(), before, sizeof(Bucket)) == 0 ||
                         std::memcmp(seen.data(), after, sizeof(Bucket)) == 0;
      Record record;
      const auto answer = LookUpIn(seen, grant, key, kReader, {}, world.now, &record);
      EXPECT_EQ(answer == BucketAnswer::kTorn, !whole) << "mixture " << mixture;
      torn += answer == BucketAnswer::kTorn;
    }
  }
  EXPECT_GT(torn, 20);
}

TEST(BucketsTest, WhatFindsNoPlaceIsAskedFor) {
  World world;
  world.Greet(7);
  constexpr uint64_t kMore = Bucket::kEntries + 3;
  for (uint64_t n = 1; n <= kMore; ++n) world.Publish(7, KeyAt(3, n), n);
  size_t found = 0;
  for (uint64_t n = 1; n <= kMore; ++n) {
    const auto answer = world.LookUp(KeyAt(3, n));
    found += answer == BucketAnswer::kFound;
    if (answer != BucketAnswer::kFound) {
      EXPECT_EQ(answer, BucketAnswer::kElsewhere);
    }
  }
  EXPECT_EQ(found, Bucket::kEntries);
  EXPECT_EQ(world.LookUp(KeyAt(3, 100)), BucketAnswer::kElsewhere) << "it may be elsewhere, too";
  EXPECT_EQ(world.LookUp(KeyAt(4, 100)), BucketAnswer::kAbsent) << "another bucket";
  // In any order, the count comes out right.
  for (uint64_t n = kMore; n >= 1; --n) world.Withdraw(7, KeyAt(3, n), n);
  EXPECT_EQ(world.LookUp(KeyAt(3, 100)), BucketAnswer::kAbsent);
}

TEST(BucketsTest, StayWithinTheirMemory) {
  World world(kBuckets * sizeof(Bucket) * 3 / 2);  // no power of two
  EXPECT_EQ(world.shard->Directory(world.now).buckets, kBuckets);
  world.Greet(7);
  for (uint64_t n = 1; n <= 4000; ++n) world.Publish(7, KeyAt(n, n), n);
  EXPECT_EQ(world.memory.back().checksum, kUntouched);
  EXPECT_EQ(world.memory.back().entries.back().generation, kUntouched);
  EXPECT_EQ(World(kBuckets * sizeof(Bucket) - 1).shard->Directory(world.now).buckets, 0u)
      << "too little for one for each stripe";
}

TEST(BucketsTest, ARestartedShardsBucketsAreNotTheFormerOnes) {
  World world;
  const Key key = KeyAt(3, 1);
  world.Greet(7);
  world.Publish(7, key, 11);
  const Grant former = world.Ask();
  World restarted;
  restarted.Greet(7);
  restarted.Publish(7, key, 11);
  Record record;
  EXPECT_EQ(restarted.LookUp(key, former, &record), BucketAnswer::kTorn);
  EXPECT_EQ(restarted.LookUp(key, restarted.Ask(), &record), BucketAnswer::kFound);
}

// The shard's process is stopped: its memory stays as it is.
TEST(BucketsTest, AGrantEndsWithoutTheShard) {
  World world;
  const Key key = KeyAt(3, 1);
  world.Greet(7);
  world.Publish(7, key, 11);
  world.now += milliseconds(1000);  // since it has heard from the owner
  const Grant grant = world.Ask();
  Record record;
  world.now += milliseconds(1999);
  EXPECT_EQ(world.LookUp(key, grant, &record), BucketAnswer::kFound);
  world.now += milliseconds(2);
  EXPECT_EQ(world.LookUp(key, grant, &record), BucketAnswer::kUngranted);
  EXPECT_EQ(record.node, 0u);
  EXPECT_EQ(world.ByRequest(key).node, 0u) << "as if it had been asked";
}

// Whoever has published meanwhile has not reached it.
TEST(BucketsTest, WhatAStoppedShardHasNotIsNotAbsentForever) {
  World world;
  world.Greet(7);
  world.Publish(7, KeyAt(3, 1), 11);
  const Grant grant = world.Ask();
  Record record;
  world.now += world.options.owner_ttl - milliseconds(1);
  EXPECT_EQ(world.LookUp(KeyAt(3, 2), grant, &record), BucketAnswer::kAbsent);
  EXPECT_EQ(world.LookUp(KeyAt(4, 1), grant, &record), BucketAnswer::kAbsent);
  world.now += milliseconds(1);
  EXPECT_EQ(world.LookUp(KeyAt(3, 2), grant, &record), BucketAnswer::kUngranted);
  EXPECT_EQ(world.LookUp(KeyAt(4, 1), grant, &record), BucketAnswer::kUngranted) << "never written";
}

TEST(BucketsTest, NobodyGrantsForLongerThanTheLongest) {
  World world;
  const Key key = KeyAt(3, 1);
  world.Greet(7);
  world.Publish(7, key, 11);
  DirectoryOk said = world.shard->Directory(world.now);
  for (ServedOwner& owner : said.owners) owner.fresh_us = UINT32_MAX;
  const Grant grant(said, kIncarnation, world.now, milliseconds(500));
  Record record;
  world.now += milliseconds(499);
  EXPECT_EQ(world.LookUp(key, grant, &record), BucketAnswer::kFound);
  world.now += milliseconds(1);
  EXPECT_EQ(world.LookUp(key, grant, &record), BucketAnswer::kUngranted);
}

TEST(BucketsTest, AnEntryOfAnotherEpochThanTheGrantsDoesNotCount) {
  World world;
  const Key kept = KeyAt(3, 1), again = KeyAt(3, 2);
  world.Greet(7);
  world.Publish(7, kept, 11);
  const Grant former = world.Ask();
  ++world.epochs[7];
  world.Greet(7);
  world.Publish(7, again, 12);
  Record record;
  // Void, though nobody has swept it away yet.
  EXPECT_EQ(world.LookUp(kept, world.Ask(), &record), BucketAnswer::kAbsent);
  // The former grant cannot know of the new epoch.
  EXPECT_EQ(world.LookUp(again, former, &record), BucketAnswer::kUngranted);
  EXPECT_EQ(world.LookUp(again, world.Ask(), &record), BucketAnswer::kFound);
}

TEST(BucketsTest, AnyHistoryIsAnsweredAsByRequest) {
  std::mt19937_64 rng(20250);
  const auto pick = [&](uint64_t n) { return rng() % n; };
  World world;
  std::map<BucketAnswer, int> answers;
  for (uint64_t step = 1; step <= 30'000; ++step) {
    const uint64_t owner = 1 + pick(6);  // 1: the shard's own node
    const Key key = KeyAt(pick(3), pick(6));
    switch (pick(12)) {
      case 0: world.Greet(owner); break;
      case 1:
        if (pick(20) == 0) ++world.epochs[owner];
        break;
      case 2:
        if (pick(20) == 0) world.shard->Forget(owner);
        break;
      case 3: world.shard->Expire(world.now); break;
      case 4: world.now += milliseconds(pick(4000)); break;
      case 5:
      case 6: {
        const Record record = world.ByRequest(key);
        if (record.node == owner) world.Withdraw(owner, key, record.generation);
        break;
      }
      default: {
        const PublishItem item{key, Record{.node = owner,
                                           .incarnation = 1,
                                           .generation = step,
                                           .length = 1,
                                           .replica = static_cast<uint8_t>(pick(2))}};
        uint8_t outcome;
        (void)world.shard->Publish(world.Stamp(owner), {&item, 1}, {&outcome, 1}, world.now);
      }
    }
    const Key asked = KeyAt(pick(3), pick(6));
    Reader reader{.node = 1 + pick(8)};  // an owner itself, or none
    for (uint64_t n = 1; n <= 6; ++n)
      if (pick(4) == 0) reader.exclude.push_back(n);
    Record seen;
    const auto answer = world.LookUp(asked, world.Ask(), &seen, reader);
    const Record told = world.ByRequest(asked, reader);
    ++answers[answer];
    if (seen.node != 0) {
      ASSERT_NE(seen.node, reader.node) << "step " << step;
      ASSERT_EQ(std::count(reader.exclude.begin(), reader.exclude.end(), seen.node), 0)
          << "step " << step;
    }
    if (answer == BucketAnswer::kFound) {
      // Of several holders, the one that by request is given may have found no place.
      if (seen != told) {
        ASSERT_NE(told.node, 0u) << "step " << step;
        for (Record next = told; next != seen; next = world.ByRequest(asked, reader)) {
          ASSERT_NE(next.node, 0u) << "step " << step << ": by request it is never given";
          reader.exclude.push_back(next.node);
        }
      }
    } else {
      ASSERT_NE(answer, BucketAnswer::kTorn);
      if (answer == BucketAnswer::kAbsent) {
        ASSERT_EQ(told.node, 0u) << "step " << step;
      }
    }
  }
  EXPECT_GT(answers[BucketAnswer::kFound], 1000);
  EXPECT_GT(answers[BucketAnswer::kAbsent], 100);
  EXPECT_GT(answers[BucketAnswer::kElsewhere], 100);
  EXPECT_GT(answers[BucketAnswer::kUngranted], 100);
}

}  // namespace
}  // namespace peercache
