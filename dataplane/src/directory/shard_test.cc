#include "directory/shard.h"

#include <gtest/gtest.h>

#include <set>

#include "directory/buckets.h"
#include "directory/fence.h"
#include "directory/owner_table.h"

namespace peercache {
namespace {

constexpr Duration kTtl = milliseconds(3000);
constexpr uint16_t kLeaseMs = 700;
constexpr uint64_t kSelf = 1, kA = 10, kB = 20, kReader = 99;

TimePoint At(int64_t ms) { return TimePoint(milliseconds(1'000'000 + ms)); }

Key KeyOf(uint64_t n) {
  Key key;
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t word = (n + 1) * 0x9e3779b97f4a7c15 * (2 * i + 1) ^ (n << 7 * i);
    std::memcpy(key.bytes.data() + 8 * i, &word, sizeof(word));
  }
  return key;
}

class ShardTest : public testing::Test {
 protected:
  ShardTest() { Make({}); }
  void Make(ShardOptions options) {
    options.self = kSelf;
    options.stamp_base = 1000;
    shard_ = std::make_unique<Shard>(options);
  }
  // A stamp as of an owner that heard from the shard at `heard`.
  OwnerStamp From(uint64_t node, uint64_t epoch, TimePoint heard, uint64_t incarnation = 1) {
    // Before that it has made itself known.
    if (shard_->Voice(node, heard).instance == 0)
      (void)shard_->Contact({.node = node}, At(-100'000));
    return {.node = node,
            .incarnation = incarnation,
            .epoch = epoch,
            .echo = shard_->Voice(node, heard).stamp,
            .sequence = ++sequence_,
            .ttl_ms = static_cast<uint32_t>(ToMillis(kTtl)),
            .lease_ms = kLeaseMs};
  }
  static PublishItem Item(uint64_t key, const OwnerStamp& owner, uint64_t generation,
                          bool replica = false) {
    Record record{.node = owner.node,
                  .incarnation = owner.incarnation,
                  .offset = generation * 4096,
                  .generation = generation,
                  .checksum = 5,
                  .length = 100,
                  .replica = replica,
                  .lease_ms = kLeaseMs};
    return {KeyOf(key), record};
  }
  PublishOutcome Publish(const OwnerStamp& owner, uint64_t key, uint64_t generation, TimePoint now,
                         bool replica = false) {
    const PublishItem items[] = {Item(key, owner, generation, replica)};
    uint8_t outcome[1] = {99};
    status_ = shard_->Publish(owner, items, outcome, now);
    return static_cast<PublishOutcome>(outcome[0]);
  }
  Status Withdraw(const OwnerStamp& owner, uint64_t key, uint64_t generation, TimePoint now) {
    const WithdrawItem items[] = {{KeyOf(key), generation}};
    return shard_->Withdraw(owner, items, now);
  }
  std::vector<uint32_t> WithdrawnUnserved(const OwnerStamp& owner, std::vector<uint64_t> keys,
                                          uint64_t generation, TimePoint now) {
    OwnerStamp stamp = owner;
    stamp.sequence = ++sequence_;
    std::vector<WithdrawItem> items;
    for (const uint64_t key : keys) items.push_back({KeyOf(key), generation});
    std::vector<uint32_t> unserved(items.size(), 12345);
    EXPECT_TRUE(shard_->Withdraw(stamp, items, now, unserved).ok());
    return unserved;
  }
  Record Find(uint64_t key, TimePoint now, uint64_t reader = kReader,
              std::vector<uint64_t> exclude = {}) {
    const Key keys[] = {KeyOf(key)};
    Record out[1];
    shard_->Lookup(keys, reader, exclude, out, now);
    return out[0];
  }

  // All that are served, as a reader meets them that leaves out whom it has tried.
  std::set<uint64_t> Holders(uint64_t key, TimePoint now) {
    std::vector<uint64_t> tried;
    while (const uint64_t node = Find(key, now, kReader, tried).node) tried.push_back(node);
    return {tried.begin(), tried.end()};
  }

  std::unique_ptr<Shard> shard_;
  Status status_;
  uint64_t sequence_ = 0;
};

TEST_F(ShardTest, ServesWhatAFreshOwnerPublished) {
  const OwnerStamp owner = From(kA, 1, At(0));
  EXPECT_EQ(Publish(owner, 1, 3, At(10)), kServed);
  EXPECT_EQ(Find(1, At(20)), Item(1, owner, 3).record);
  EXPECT_EQ(Find(2, At(20)).node, 0u);
}

// ---- for how long nobody was told of a record

TEST_F(ShardTest, AWithdrawalSaysForHowLongTheRecordWasNotServed) {
  const OwnerStamp owner = From(kA, 1, At(0));
  for (const uint64_t key : {1, 2, 3})
    ASSERT_EQ(Publish(From(kA, 1, At(0)), key, 3, At(10)), kServed);
  EXPECT_EQ(Find(1, At(100)).node, kA);
  EXPECT_EQ(Find(1, At(500)).node, kA);
  EXPECT_EQ(Find(2, At(2000)).node, kA);
  EXPECT_EQ(WithdrawnUnserved(owner, {1, 2, 3, 4}, 3, At(2000)),
            (std::vector<uint32_t>{1499, 0, kNeverServed, 0}));
}

TEST_F(ShardTest, OnlyWhoWasToldCounts) {
  for (const uint64_t key : {1, 2, 3}) Publish(From(kA, 1, At(0)), key, 3, At(10));
  EXPECT_EQ(Find(1, At(500), kA).node, 0u) << "its own owner asks";
  EXPECT_EQ(Find(2, At(500), kReader, {kA}).node, 0u) << "who has tried it";
  EXPECT_EQ(Find(3, At(3500)).node, 0u) << "it is silent";
  ASSERT_TRUE(shard_->Contact(From(kA, 1, At(4000)), At(4001)).ok());
  EXPECT_EQ(WithdrawnUnserved(From(kA, 1, At(4000)), {1, 2, 3}, 3, At(4002)),
            (std::vector<uint32_t>(3, kNeverServed)));
}

// A reader that takes all holders is told of all of them.
TEST_F(ShardTest, EveryHolderThatIsNamedWasServed) {
  const OwnerStamp a = From(kA, 1, At(0)), b = From(kB, 1, At(0));
  Publish(a, 1, 3, At(10));
  Publish(b, 1, 4, At(10));
  const Key keys[] = {KeyOf(1)};
  Record out[1];
  std::vector<OtherRecord> others;
  shard_->Lookup(keys, kReader, {}, out, At(100), &others);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(WithdrawnUnserved(a, {1}, 3, At(600)), (std::vector<uint32_t>{499}));
  EXPECT_EQ(WithdrawnUnserved(b, {1}, 4, At(600)), (std::vector<uint32_t>{499}));
}

// What the shard has lost, or never had under this generation, somebody may have been told of.
TEST_F(ShardTest, WhatTheShardDoesNotHaveItMayHaveServedJustNow) {
  Publish(From(kA, 1, At(0)), 1, 3, At(10));
  EXPECT_EQ(WithdrawnUnserved(From(kA, 1, At(0)), {1}, 2, At(500)), (std::vector<uint32_t>{0}))
      << "another generation";
  Find(1, At(600));
  // A higher epoch voids the record; published again, it begins anew. Who was told before is for
  // the owner's fence to know.
  EXPECT_EQ(WithdrawnUnserved(From(kA, 2, At(0)), {1}, 3, At(700)), (std::vector<uint32_t>{0}));
  Publish(From(kA, 2, At(0)), 1, 3, At(800));
  EXPECT_EQ(WithdrawnUnserved(From(kA, 2, At(0)), {1}, 3, At(900)),
            (std::vector<uint32_t>{kNeverServed}));
  EXPECT_EQ(WithdrawnUnserved(From(kA, 2, At(0)), {1}, 3, At(901)), (std::vector<uint32_t>{0}))
      << "it is gone";
}

TEST_F(ShardTest, ARecordThatIsPublishedAgainWasServedWhenItWas) {
  const OwnerStamp owner = From(kA, 1, At(0));
  Publish(owner, 1, 3, At(10));
  Find(1, At(100));
  Publish(From(kA, 1, At(0)), 1, 3, At(900));
  EXPECT_EQ(WithdrawnUnserved(From(kA, 1, At(0)), {1}, 3, At(1100)), (std::vector<uint32_t>{999}));
  // Another page under the same key is not what readers were told of.
  Publish(From(kA, 1, At(0)), 1, 4, At(1200));
  Find(1, At(1300));
  Publish(From(kA, 1, At(0)), 1, 5, At(1400));
  EXPECT_EQ(WithdrawnUnserved(From(kA, 1, At(0)), {1}, 5, At(1500)),
            (std::vector<uint32_t>{kNeverServed}));
}

// A one-sided lookup leaves no trace: while a grant may last, all records count as served just now.
TEST_F(ShardTest, WhoeverMayLookIntoTheBucketsCountsAsTold) {
  std::vector<Bucket> buckets(64);
  ShardOptions options;
  options.buckets = std::as_writable_bytes(std::span(buckets));
  options.owner_ttl = kTtl;
  Make(options);
  const OwnerStamp owner = From(kA, 1, At(0));
  Publish(owner, 1, 3, At(10));
  EXPECT_EQ(WithdrawnUnserved(From(kA, 1, At(0)), {1}, 3, At(500)),
            (std::vector<uint32_t>{kNeverServed}))
      << "nobody was granted anything";
  ASSERT_NE(shard_->Directory(At(1000)).buckets, 0u);
  // Also of what is published after the grant.
  Publish(From(kA, 1, At(900)), 1, 4, At(1500));
  EXPECT_EQ(WithdrawnUnserved(From(kA, 1, At(900)), {1}, 4, At(2000)), (std::vector<uint32_t>{0}));
  const int64_t end = 1000 + ToMillis(Padded(kTtl));  // rounded down
  Publish(From(kA, 1, At(3500)), 1, 5, At(3600));
  EXPECT_EQ(WithdrawnUnserved(From(kA, 1, At(3500)), {1}, 5, At(end)), (std::vector<uint32_t>{0}));
  Publish(From(kA, 1, At(3500)), 1, 6, At(end + 1));
  EXPECT_EQ(WithdrawnUnserved(From(kA, 1, At(3500)), {1}, 6, At(end + 400)),
            (std::vector<uint32_t>{399}));
}

TEST_F(ShardTest, PlacesForTimesMustFit) {
  uint32_t times[2] = {};
  const WithdrawItem items[] = {{KeyOf(1), 1}};
  EXPECT_EQ(shard_->Withdraw(From(kA, 1, At(0)), items, At(1), times).code(),
            Code::kInvalidArgument);
}

TEST_F(ShardTest, FreshnessEndsOneTtlAfterTheEchoHoweverLateTheMessageCame) {
  Publish(From(kA, 1, At(0)), 1, 3, At(2000));
  EXPECT_EQ(Find(1, At(2999)).node, kA);
  EXPECT_EQ(Find(1, At(3000)).node, 0u);
  EXPECT_EQ(shard_->stats(At(3000)).suppressed, 1u);
  // Comes back with the same pair: served again.
  ASSERT_TRUE(shard_->Contact(From(kA, 1, At(3500)), At(3600)).ok());
  EXPECT_EQ(Find(1, At(3600)).node, kA);
  // A keepalive that echoes something old extends nothing and takes nothing away.
  ASSERT_TRUE(shard_->Contact(From(kA, 1, At(100)), At(3700)).ok());
  EXPECT_EQ(Find(1, At(6499)).node, kA);
  EXPECT_EQ(Find(1, At(6500)).node, 0u);
}

TEST_F(ShardTest, FirstContactIsStoredAndServedOnceTheOwnerEchoes) {
  Fence fence(kA, 1, OwnerTimes{}, At(0));
  OwnerStamp stamp = fence.Begin();
  EXPECT_EQ(Publish(stamp, 1, 3, At(0)), kStored);
  EXPECT_EQ(Find(1, At(0)).node, 0u);
  const ShardVoice voice = shard_->Voice(kA, At(0));
  fence.Answered(stamp, voice.stamp, voice.instance, At(1));
  ASSERT_TRUE(shard_->Contact(fence.Begin(), At(2)).ok());
  EXPECT_EQ(Find(1, At(2)).node, kA);
}

TEST_F(ShardTest, EchoesOfOtherInstancesAreVoid) {
  // Of the future, below the base, negative: none was issued here.
  OwnerStamp stamp = From(kA, 1, At(0));
  for (const int64_t echo :
       {shard_->Voice(kA, At(11)).stamp, int64_t{999}, int64_t{-5}, INT64_MAX, INT64_MIN}) {
    stamp.echo = echo;
    stamp.sequence = ++sequence_;
    EXPECT_EQ(Publish(stamp, 1, 3, At(10)), kStored) << echo;
  }
  EXPECT_EQ(Find(1, At(10)).node, 0u);
}

TEST_F(ShardTest, ShardsSpeakToEveryOwnerWithAnOriginOfItsOwn) {
  ShardOptions options;
  Shard a(options), b(options);
  std::vector<ShardVoice> voices;
  for (Shard* shard : {&a, &b}) {
    EXPECT_EQ(shard->Voice(kA, At(0)).instance, 0u) << "not known yet";
    for (uint64_t node : {kA, kB}) {
      ASSERT_TRUE(shard->Contact({.node = node}, At(0)).ok());
      voices.push_back(shard->Voice(node, At(0)));
      EXPECT_GT(voices.back().stamp, 0);
      EXPECT_GT(shard->Voice(node, At(1)).stamp, voices.back().stamp);
      EXPECT_EQ(shard->Voice(node, At(1)).instance, voices.back().instance);
    }
  }
  for (size_t i = 0; i < voices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(voices[i].instance, voices[j].instance);
      EXPECT_GT(std::abs(voices[i].stamp - voices[j].stamp),
                Duration(std::chrono::hours(1)).count());
    }
  }
}

TEST_F(ShardTest, OwnersStateTheirTimesAndTheShardServesNoLonger) {
  OwnerStamp hasty = From(kA, 1, At(0)), slow = From(kB, 1, At(0));
  hasty.ttl_ms = 1000;
  hasty.lease_ms = 100;
  slow.ttl_ms = 9000;
  slow.lease_ms = 5000;
  EXPECT_EQ(Publish(hasty, 1, 3, At(10)), kServed);
  EXPECT_EQ(Publish(slow, 2, 3, At(10)), kServed);
  EXPECT_EQ(Find(1, At(999)).lease_ms, 100u);
  EXPECT_EQ(Find(1, At(1000)).node, 0u);
  EXPECT_EQ(Find(2, At(2999)).lease_ms, 5000u) << "readers apply their own bound as well";
  EXPECT_EQ(Find(2, At(3000)).node, 0u) << "bounded by the shard's own";
  // Configured anew, the owner comes back as another incarnation.
  OwnerStamp now_slow = From(kA, 1, At(2000), 2);
  now_slow.lease_ms = 400;
  EXPECT_EQ(Publish(now_slow, 1, 1, At(2000)), kServed);
  EXPECT_EQ(Find(1, At(2001)).lease_ms, 400u);
}

// It counts on the shard's silence after its own time, whatever the process before has proven.
TEST_F(ShardTest, AnOwnerThatIsBackWithAShorterTtlIsNotFreshByTheLongerOne) {
  EXPECT_EQ(Publish(From(kA, 1, At(0)), 1, 3, At(10)), kServed);
  OwnerStamp hasty{.node = kA, .incarnation = 2, .epoch = 1, .sequence = 1, .ttl_ms = 500};
  EXPECT_EQ(Publish(hasty, 1, 4, At(20)), kStored) << "it has heard nothing of this shard yet";
  EXPECT_EQ(Find(1, At(21)).node, 0u);
  hasty.sequence = 2;
  hasty.echo = shard_->Voice(kA, At(20)).stamp;
  ASSERT_TRUE(shard_->Contact(hasty, At(30)).ok());
  EXPECT_EQ(Find(1, At(519)).generation, 4u);
  EXPECT_EQ(Find(1, At(520)).node, 0u);
}

TEST_F(ShardTest, AHigherEpochDropsAllRecordsAndLowerOnesAreRefused) {
  Publish(From(kA, 1, At(0)), 1, 3, At(10));
  ASSERT_TRUE(shard_->Contact(From(kA, 2, At(0)), At(20)).ok());
  EXPECT_EQ(Find(1, At(30)).node, 0u);
  Publish(From(kA, 1, At(0)), 2, 4, At(40));
  EXPECT_EQ(status_.code(), Code::kAborted);
  EXPECT_EQ(Find(2, At(40)).node, 0u);
  EXPECT_EQ(Withdraw(From(kA, 1, At(0)), 1, 3, At(40)).code(), Code::kAborted);
  EXPECT_EQ(shard_->Contact(From(kA, 1, At(0)), At(40)).code(), Code::kAborted);
  EXPECT_EQ(shard_->stats(At(40)).refused_stale, 3u);
  EXPECT_EQ(Publish(From(kA, 2, At(0)), 1, 5, At(50)), kServed);
  EXPECT_EQ(Find(1, At(50)).generation, 5u);
}

TEST_F(ShardTest, ANewIncarnationOutranksAnyEpoch) {
  Publish(From(kA, 9, At(0)), 1, 3, At(10));
  ASSERT_TRUE(shard_->Contact(From(kA, 1, At(0), 2), At(20)).ok());
  EXPECT_EQ(Find(1, At(30)).node, 0u);
  Publish(From(kA, 10, At(0)), 1, 3, At(40));
  EXPECT_EQ(status_.code(), Code::kAborted);
}

// An owner that started under a clock an hour ahead, died, and is back under the right one.
TEST_F(ShardTest, ALowerIncarnationIsHeardOnceTheHigherOneHasBeenSilent) {
  constexpr uint64_t kAhead = 3600, kRight = 7;
  const OwnerStamp former = From(kA, 1, At(0), kAhead);
  EXPECT_EQ(Publish(former, 1, 30, At(10)), kServed);
  const uint64_t instance = shard_->Voice(kA, At(10)).instance;
  Publish(From(kA, 1, At(20), kRight), 2, 3, At(3000));
  EXPECT_EQ(status_.code(), Code::kAborted) << "the other may be alive";
  EXPECT_EQ(shard_->Contact(From(kA, 2, At(3000), kRight), At(3011)).code(), Code::kOk);
  EXPECT_NE(shard_->Voice(kA, At(3011)).instance, instance);
  EXPECT_EQ(Find(1, At(3011)).node, 0u) << "that process and its pages are gone";
  EXPECT_EQ(Publish(From(kA, 2, At(3011), kRight), 2, 3, At(3020)), kServed);
  EXPECT_EQ(Find(2, At(3030)).incarnation, kRight);
  // A copy of what the former one said voids the records, is served to nobody, and keeps the owner
  // away no longer than before.
  OwnerStamp late = former;
  late.sequence = ++sequence_;
  EXPECT_EQ(Publish(late, 1, 30, At(3040)), kStored);
  EXPECT_EQ(Find(1, At(3050)).node, 0u);
  EXPECT_EQ(Find(2, At(3050)).node, 0u);
  EXPECT_EQ(shard_->Contact(From(kA, 3, At(3050), kRight), At(3060)).code(), Code::kAborted);
  EXPECT_EQ(shard_->Contact(From(kA, 4, At(6040), kRight), At(6041)).code(), Code::kOk);
  EXPECT_EQ(Publish(From(kA, 4, At(6041), kRight), 2, 3, At(6050)), kServed);
}

// The former process was only stopped: what it published before is void, and it learns of that.
TEST_F(ShardTest, AnOwnerWhosePlaceAnotherProcessTookMeetsAnotherInstance) {
  Fence fence(kA, 3600, OwnerTimes{}, At(0));
  const auto tell = [&](int64_t ms) {
    const ShardVoice voice = shard_->Voice(kA, At(ms));
    return fence.Answered(fence.Begin(), voice.stamp, voice.instance, At(ms));
  };
  ASSERT_TRUE(shard_->Contact(fence.Begin(), At(0)).ok());
  EXPECT_FALSE(tell(0));
  const OwnerStamp publish = fence.Begin();
  EXPECT_EQ(Publish(publish, 1, 3, At(1)), kServed);
  ASSERT_TRUE(shard_->Contact(From(kA, 1, At(4000), 7), At(4000)).ok());
  EXPECT_EQ(Publish(publish, 1, 3, At(4010)), kStored) << "a copy";
  EXPECT_EQ(Find(1, At(4010)).node, 0u);
  EXPECT_TRUE(tell(4020));
  ASSERT_TRUE(shard_->Contact(fence.Begin(), At(4030)).ok());
  EXPECT_EQ(Find(1, At(4040)).node, 0u) << "not published again yet";
}

TEST_F(ShardTest, EpochsOfOneOwnerLeaveOthersAlone) {
  Publish(From(kA, 1, At(0)), 1, 3, At(10));
  Publish(From(kB, 1, At(0)), 1, 8, At(10));
  shard_->Contact(From(kA, 2, At(0)), At(20)).code();
  EXPECT_EQ(Find(1, At(30)).node, kB);
}

TEST_F(ShardTest, ACopyOfAPublishDoesNotUndoTheWithdrawal) {
  const OwnerStamp publish = From(kA, 1, At(0));
  EXPECT_EQ(Publish(publish, 1, 3, At(10)), kServed);
  ASSERT_TRUE(Withdraw(From(kA, 1, At(0)), 1, 3, At(20)).ok());
  Publish(publish, 1, 3, At(30));
  EXPECT_EQ(status_.code(), Code::kAborted);
  EXPECT_EQ(Find(1, At(30)).node, 0u);
}

TEST_F(ShardTest, MessagesOfOneOwnerMayOvertakeEachOther) {
  const OwnerStamp first = From(kA, 1, At(0)), second = From(kA, 1, At(0));
  EXPECT_EQ(Publish(second, 2, 4, At(10)), kServed);
  EXPECT_EQ(Publish(first, 1, 3, At(20)), kServed);
  EXPECT_EQ(Find(1, At(20)).node, kA);
  EXPECT_EQ(Find(2, At(20)).node, kA);
}

TEST_F(ShardTest, WithdrawalRemovesOnlyItsGenerationOfItsOwner) {
  Publish(From(kA, 1, At(0)), 1, 3, At(10));
  ASSERT_TRUE(Withdraw(From(kA, 1, At(0)), 1, 2, At(20)).ok());
  ASSERT_TRUE(Withdraw(From(kB, 1, At(0)), 1, 3, At(20)).ok());
  ASSERT_TRUE(Withdraw(From(kA, 1, At(0)), 55, 3, At(20)).ok());
  EXPECT_EQ(Find(1, At(20)).generation, 3u);
  // A newer publish overtakes the withdrawal of the older one.
  Publish(From(kA, 1, At(0)), 1, 4, At(30));
  ASSERT_TRUE(Withdraw(From(kA, 1, At(0)), 1, 3, At(40)).ok());
  EXPECT_EQ(Find(1, At(40)).generation, 4u);
  ASSERT_TRUE(Withdraw(From(kA, 1, At(0)), 1, 4, At(50)).ok());
  EXPECT_EQ(Find(1, At(50)).node, 0u);
  EXPECT_EQ(shard_->stats(At(50)).records, 0u);
}

TEST_F(ShardTest, RepublishingIsIdempotentAndAnOlderGenerationLoses) {
  Publish(From(kA, 1, At(0)), 1, 3, At(10));
  EXPECT_EQ(Publish(From(kA, 1, At(0)), 1, 3, At(20)), kServed);
  EXPECT_EQ(Publish(From(kA, 1, At(0)), 1, 2, At(30)), kServed);
  EXPECT_EQ(Find(1, At(30)).generation, 3u);
  EXPECT_EQ(shard_->stats(At(30)).records, 1u);
}

TEST_F(ShardTest, OwnRecordsAreAlwaysFreshAndNeverExpire) {
  const OwnerStamp self{kSelf, 1, 1, 0, 0};
  EXPECT_EQ(Publish(self, 1, 3, At(0)), kServed);
  EXPECT_EQ(shard_->Expire(At(10'000'000)), 0u);
  EXPECT_EQ(Find(1, At(10'000'000)).node, kSelf);
}

TEST_F(ShardTest, ExcludedOwnersAreNotNamedNorTheReaderItselfAndReadersSpread) {
  for (uint64_t node : {kA, kB, uint64_t{30}}) Publish(From(node, 1, At(0)), 1, 3, At(10));
  EXPECT_EQ(Holders(1, At(20)), (std::set<uint64_t>{kA, kB, 30}));
  EXPECT_EQ(Find(1, At(20), kB, {kA}).node, 30u) << "it has evicted the page just now";
  EXPECT_EQ(Find(1, At(20), kB, {kA, 30}).node, 0u);
  EXPECT_EQ(Find(1, At(20), kReader, {kA, kB}).node, 30u);
  EXPECT_EQ(Find(1, At(20), kReader, {kA, kB, 30}).node, 0u);
  std::map<uint64_t, int> chosen;
  for (uint64_t reader = 100; reader < 400; ++reader) ++chosen[Find(1, At(20), reader).node];
  ASSERT_EQ(chosen.size(), 3u);
  for (const auto& [node, count] : chosen) EXPECT_GT(count, 60) << node;
  EXPECT_EQ(Find(1, At(20), 123), Find(1, At(20), 123));
}

TEST_F(ShardTest, NamesTheOtherHoldersToReadersThatChoose) {
  for (uint64_t node : {kA, kB, uint64_t{30}}) Publish(From(node, 1, At(0)), 1, 3, At(10));
  Publish(From(kB, 1, At(0)), 2, 3, At(10));
  const Key keys[] = {KeyOf(2), KeyOf(1), KeyOf(3)};
  Record out[3];
  std::vector<OtherRecord> others;
  shard_->Lookup(keys, kReader, {}, out, At(20), &others);
  EXPECT_EQ(out[0].node, kB);
  EXPECT_EQ(out[1], Find(1, At(20))) << "the one that others are told of";
  EXPECT_EQ(out[2].node, 0u);
  std::set<uint64_t> holders{out[1].node};
  for (const OtherRecord& other : others) {
    EXPECT_EQ(other.index, 1u) << "of a key that has several";
    EXPECT_EQ(other.record.generation, 3u);
    holders.insert(other.record.node);
  }
  EXPECT_EQ(others.size(), 2u);
  EXPECT_EQ(holders, (std::set<uint64_t>{kA, kB, 30}));
  others.clear();
  shard_->Lookup(keys, kA, std::vector<uint64_t>{kB}, out, At(20), &others);
  EXPECT_EQ(out[1].node, 30u);
  EXPECT_TRUE(others.empty()) << "one of them asks, one is excluded";
}

TEST_F(ShardTest, KeepsTheRecordsOfAllOwnersOfAKeyAndNamesAFew) {
  constexpr uint64_t kOwners = 100;
  std::set<uint64_t> all;
  for (uint64_t node = 1; node <= kOwners; ++node) {
    const bool replica = node % 3 == 0;
    EXPECT_EQ(Publish(From(node * 100, 1, At(0)), 1, 3, At(10), replica), kServed);
    all.insert(node * 100);
  }
  EXPECT_EQ(shard_->stats(At(20)).records, kOwners);
  EXPECT_EQ(Holders(1, At(20)), all);
  const Key keys[] = {KeyOf(1)};
  Record out[1];
  std::vector<OtherRecord> others;
  shard_->Lookup(keys, kReader, {}, out, At(20), &others);
  EXPECT_EQ(others.size() + 1, Shard::kHoldersNamed);
  // Whoever is left is found: all but one withdraw or fall silent.
  for (uint64_t node = 2; node <= kOwners; node += 2)
    ASSERT_TRUE(Withdraw(From(node * 100, 1, At(0)), 1, 3, At(30)).ok());
  ASSERT_TRUE(shard_->Contact(From(7700, 1, At(4000)), At(4000)).ok());
  EXPECT_EQ(Holders(1, At(4010)), (std::set<uint64_t>{7700}));
}

TEST_F(ShardTest, RefusesBeyondMaxRecordsAndTakesRoomOfVoidRecords) {
  Make({.max_records = 3});
  for (uint64_t key = 1; key <= 3; ++key)
    EXPECT_EQ(Publish(From(kA, 1, At(0)), key, 3, At(10)), kServed);
  EXPECT_EQ(Publish(From(kB, 1, At(0)), 4, 3, At(20)), kRefused);
  EXPECT_EQ(shard_->stats(At(20)).refused_full, 1u);
  EXPECT_EQ(Publish(From(kA, 1, At(0)), 2, 4, At(20)), kServed) << "replacing needs no room";
  ASSERT_TRUE(Withdraw(From(kA, 1, At(0)), 1, 3, At(30)).ok());
  EXPECT_EQ(Publish(From(kB, 1, At(0)), 4, 3, At(30)), kServed);
  shard_->Contact(From(kA, 2, At(0)), At(40)).code();
  EXPECT_EQ(shard_->Expire(At(40)), 2u);
  EXPECT_EQ(Publish(From(kB, 1, At(0)), 5, 3, At(50)), kServed);
  EXPECT_EQ(shard_->stats(At(50)).records, 2u);
}

TEST_F(ShardTest, ExpiryDropsTheSilentAndMakesThemRepublish) {
  Publish(From(kA, 1, At(0)), 1, 3, At(10));
  Publish(From(kB, 1, At(0)), 1, 3, At(10));
  shard_->Contact(From(kB, 1, At(50'000)), At(50'000)).code();
  EXPECT_EQ(shard_->Expire(At(60'010)), 0u);
  EXPECT_EQ(shard_->Expire(At(60'011)), 1u);
  EXPECT_EQ(shard_->stats(At(60'011)).records, 1u);
  // The owner must learn that its records are gone; a late message must not bring them back.
  EXPECT_EQ(shard_->Contact(From(kA, 1, At(60'000)), At(60'020)).code(), Code::kAborted);
  EXPECT_EQ(Publish(From(kA, 2, At(60'000)), 1, 3, At(60'030)), kServed);
}

TEST_F(ShardTest, ForgettingRemembersThePair) {
  const OwnerStamp late = From(kA, 1, At(0));
  Publish(From(kA, 2, At(0)), 1, 3, At(10));
  EXPECT_EQ(shard_->Forget(kA), 1u);
  EXPECT_EQ(shard_->Forget(777), 0u);
  Publish(late, 2, 1, At(20));
  EXPECT_EQ(status_.code(), Code::kAborted);
  EXPECT_EQ(shard_->Contact(From(kA, 2, At(0)), At(30)).code(), Code::kAborted);
  EXPECT_EQ(Find(1, At(30)).node, 0u);
  EXPECT_TRUE(shard_->Contact(From(kA, 3, At(0)), At(40)).ok());
}

TEST_F(ShardTest, OwnersAreBoundedAndLongDroppedOnesGiveWay) {
  Make({.max_owners = 2});
  Publish(From(kA, 1, At(0)), 1, 3, At(0));
  Publish(From(kB, 1, At(0)), 2, 3, At(0));
  EXPECT_EQ(shard_->Contact(From(30, 1, At(0)), At(10)).code(), Code::kResourceExhausted);
  shard_->Forget(kA);
  EXPECT_EQ(shard_->Contact(From(30, 1, At(0)), At(10)).code(), Code::kResourceExhausted)
      << "a late message of the dropped owner could still be fresh";
  EXPECT_TRUE(shard_->Contact(From(30, 1, At(60'000)), At(60'001)).ok());
  EXPECT_EQ(Find(1, At(60'001)).node, 0u);
  EXPECT_EQ(shard_->stats(At(60'001)).owners, 2u);
}

// What it knew of the owner is lost as by a restart, so it must look like one: the owner publishes
// again, and a copy of an old message is never served.
TEST_F(ShardTest, AnOwnerThatWasForgottenMeetsAnotherInstance) {
  Make({.max_owners = 1});
  Fence fence(kA, 1, OwnerTimes{}, At(0));
  const auto tell = [&](int64_t ms) {
    const ShardVoice voice = shard_->Voice(kA, At(ms));
    return fence.Answered(fence.Begin(), voice.stamp, voice.instance, At(ms));
  };
  ASSERT_TRUE(shard_->Contact(fence.Begin(), At(0)).ok());
  EXPECT_FALSE(tell(0));
  const OwnerStamp publish = fence.Begin();
  EXPECT_EQ(Publish(publish, 1, 3, At(1)), kServed);
  shard_->Expire(At(70'000));
  ASSERT_TRUE(shard_->Contact(From(kB, 1, At(130'000)), At(130'001)).ok()) << "takes the place";
  shard_->Expire(At(200'000));
  const OwnerStamp late = fence.Begin();
  ASSERT_TRUE(shard_->Contact(late, At(260'003)).ok()) << "takes it back";
  EXPECT_EQ(Publish(publish, 1, 3, At(260'004)), kStored) << "a copy";
  EXPECT_TRUE(tell(260'004)) << "the owner learns that all was lost";
  ASSERT_TRUE(shard_->Contact(fence.Begin(), At(260'005)).ok());
  EXPECT_EQ(Find(1, At(260'005)).node, 0u);
}

TEST_F(ShardTest, MalformedMessagesAreNamedAndChangeNothing) {
  const OwnerStamp owner{.node = kA, .incarnation = 1, .epoch = 1, .sequence = 1};
  const OwnerStamp other{.node = kB, .incarnation = 1, .epoch = 1, .sequence = 1};
  const PublishItem foreign[] = {Item(1, other, 3)};
  uint8_t outcome[2];
  EXPECT_EQ(shard_->Publish(owner, foreign, {outcome, 1}, At(0)).code(), Code::kInvalidArgument);
  const PublishItem fine[] = {Item(1, owner, 3)};
  EXPECT_EQ(shard_->Publish(owner, fine, {outcome, 2}, At(0)).code(), Code::kInvalidArgument);
  EXPECT_EQ(shard_->Contact(OwnerStamp{}, At(0)).code(), Code::kInvalidArgument);
  EXPECT_EQ(shard_->stats(At(0)).owners, 0u);
}

TEST_F(ShardTest, LooksUpThousandsOfKeysInOneCallInTheirOrder) {
  const OwnerStamp owner = From(kA, 1, At(0));
  std::vector<PublishItem> items;
  for (uint64_t key = 0; key < 2000; ++key) items.push_back(Item(key, owner, key + 1));
  std::vector<uint8_t> outcome(items.size());
  ASSERT_TRUE(shard_->Publish(owner, items, outcome, At(0)).ok());
  std::vector<Key> keys;
  for (uint64_t key = 0; key < 4000; ++key) keys.push_back(KeyOf(key));
  std::vector<Record> out(keys.size(), Record{.node = 5});
  shard_->Lookup(keys, kReader, {}, out, At(10));
  for (uint64_t key = 0; key < 4000; ++key)
    ASSERT_EQ(out[key].generation, key < 2000 ? key + 1 : 0) << key;
  const ShardStats stats = shard_->stats(At(10));
  EXPECT_EQ(stats.lookups, 4000u);
  EXPECT_EQ(stats.hits, 2000u);
  EXPECT_EQ(stats.records, 2000u);
  EXPECT_EQ(stats.fresh_owners, 1u);
}

// A member that lies may send them; whoever counts up to them never ends.
TEST(SequenceWindow, TakesTheHighestNumbersToo) {
  SequenceWindow window;
  EXPECT_TRUE(window.Take(UINT64_MAX - 1));
  EXPECT_TRUE(window.Take(UINT64_MAX));
  EXPECT_FALSE(window.Take(UINT64_MAX));
  EXPECT_TRUE(window.Take(UINT64_MAX - 2));
  EXPECT_FALSE(window.Take(1)) << "too old to tell";
}

TEST(SequenceWindow, TakesEachNumberOnceInAnyOrder) {
  SequenceWindow window;
  EXPECT_TRUE(window.Take(5));
  EXPECT_FALSE(window.Take(5));
  EXPECT_TRUE(window.Take(3));
  EXPECT_FALSE(window.Take(3));
  EXPECT_TRUE(window.Take(5 + SequenceWindow::kSpan - 1));
  EXPECT_FALSE(window.Take(5)) << "still remembered";
  EXPECT_TRUE(window.Take(6));
  EXPECT_TRUE(window.Take(3 * SequenceWindow::kSpan));
  EXPECT_FALSE(window.Take(2 * SequenceWindow::kSpan)) << "too old to tell";
  EXPECT_TRUE(window.Take(2 * SequenceWindow::kSpan + 1));
}

}  // namespace
}  // namespace peercache
