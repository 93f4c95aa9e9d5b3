// DiskRecords and the publisher's repair, with a drive, against a real shard on the other side of a
// socket that is not in the ring for a while: what the directory has of a page that goes to disk
// and comes back.
#include "node/disk/disk_records.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/patience_testing.h"
#include "base/temp_dir_testing.h"
#include "node/disk/disk_holdings.h"
#include "node/disk/disk_note.h"
#include "node/owner/shard_host_testing.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

using testing::Eventually;

constexpr size_t kPage = 4 * kKiB;
constexpr uint64_t kTag = 1;
constexpr size_t kStep = 1000;  // of repair
constexpr OwnerTimes kTimes{.lease = milliseconds(50), .owner_ttl = milliseconds(1000)};
const uint64_t kOwner = NodeHash("owner"), kShard = NodeHash("shard");

// A node that holds one page, on disk, whose record belongs to the other node's shard at first.
class DiskRecordsTest : public ::testing::Test {
 protected:
  DiskRecordsTest() {
    disk::DiskOptions options;
    options.paths = {folder_.path()};
    options.bytes = uint64_t{520} << 20;
    options.cluster = "test";
    options.device.breaker.slow = testing::kEndsAHang;  // of whatever drive the tests are on
    auto tier = disk::DiskTier::Open(options, &records_);
    EXPECT_TRUE(tier.ok()) << tier.status().ToString();
    tier_ = std::move(*tier);
    auto pool = Pool::Create(
        {.bytes = 8 * kMiB, .huge_pages = HugePages::kOff, .generations = tier_->sequence()});
    EXPECT_TRUE(pool.ok()) << pool.status().ToString();
    pool_ = std::move(*pool);
    in_pool_.emplace(pool_.get());
    on_disk_.emplace(tier_.get(), pool_.get(), [this](auto pages) { records_.Gone(pages); });
    room_.emplace(pool_.get());
    loader_.emplace(tier_.get(), pool_.get(), &*room_, std::chrono::seconds(1));
    records_.Start(tier_.get(), &*on_disk_, &*loader_, pool_.get());
    publisher_.emplace(PublisherOptions{.incarnation = 1,
                                        .lease = kTimes.lease,
                                        .peer_timeout = testing::kEndsAHang,
                                        .stall = testing::kEndsAHang,
                                        .repair_step = kStep,
                                        .offer_again = milliseconds(1)},
                       &own_, &*in_pool_, &peers_, &views_, &counters_, nullptr, &*on_disk_);
    records_.Serve(&*publisher_);
    TheShardIs(kInTheRing);
    Store(key_);
    EXPECT_TRUE(Eventually([this] {
      Upkeep();
      return Served(Tier::kDisk);
    }));
  }

  // All of the ring, or not in it; who is unreachable may answer all the same.
  enum ShardIs { kInTheRing, kNotInTheRing, kUnreachable };
  void TheShardIs(ShardIs what) {
    auto view = std::make_shared<View>();
    view->epoch = ++ring_epoch_;
    for (const char* const id : {"owner", "shard"}) {
      Member m;
      m.id = id;
      m.incarnation = 1;
      m.state = MemberState::kActive;
      m.host = "127.0.0.1";
      m.peer_port = host_.port();
      view->by_node[NodeHash(id)] = view->members.size();
      view->members.push_back(m);
    }
    const RingMember ring[] = {{what == kInTheRing ? kShard : kOwner, 1}};
    view->current = view->next = Ring(ring, 8);
    if (what == kUnreachable) view->unreachable = {kShard};
    peers_.Update(*view);
    views_.Set(std::move(view));
  }
  // As the directory's thread does.
  void Upkeep() {
    records_.TellDirectory();
    EXPECT_TRUE(Repair());
  }
  // A whole pass.
  bool Repair() {
    bool right = publisher_->Repair(*views_.Get());
    while (publisher_->repairing()) right = publisher_->Repair(*views_.Get());
    return right;
  }
  void Store(const Key& key) {
    std::vector<std::byte> bytes(kPage);
    Fill(bytes, key);
    const disk::PageToPut page{.key = key, .tag = kTag};
    EXPECT_TRUE(
        Eventually([&] { return tier_->Put(page, bytes).what == disk::PutResult::What::kTaken; }));
  }
  // The shard has lost all, and has room for so many records, of which others have some. Until it
  // has answered for all of the node's pages.
  void TheShardIsFull(size_t room) {
    host_.Restart(room);
    ASSERT_EQ(host_.Others(room), room);
    publisher_->KeepAlive();
    ASSERT_TRUE(Eventually([this] { return Repair(); }));
    ASSERT_EQ(host_.records(), room);
  }
  void Load() {
    PagePin pin;
    loader_->Load({&key_, 1}, {&pin, 1}, Clock::now() + testing::kEndsAHang, TenantNumber{0});
    EXPECT_TRUE(pin);
  }
  // As the room's thread does.
  void Evict() {
    const std::vector<Victim> victims = pool_->TakeVictims(1, kPage);
    ASSERT_EQ(victims.size(), 1u);
    TimePoint reuse_at[1];
    publisher_->Withdraw(victims, reuse_at);
    records_.Evicted(victims);
    pool_->Quarantine(victims[0], reuse_at[0]);
  }
  bool Served(Tier tier) {
    const Record record = host_.Served(key_);
    return record.node == kOwner && record.tier == tier;
  }
  // A shard is silent while it has not heard from the owner, which is told its clock before.
  bool IsServed(Tier tier) {
    return Eventually([&] {
      publisher_->KeepAlive();
      return Served(tier);
    });
  }

  ShardHost host_{kShard, kTimes.owner_ttl};
  const Key key_ = KeyOf(1);
  testing::TempDir folder_{"/var/tmp"};
  DiskRecords records_{testing::kEndsAHang};
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<disk::DiskTier> tier_;
  std::optional<PoolHoldings> in_pool_;
  std::optional<DiskHoldings> on_disk_;
  std::optional<Room> room_;
  std::optional<Loader> loader_;
  Shard own_{{.self = kOwner}};
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", kOwner, 1}, secret_.get(), kTimes};
  Views views_;
  Counters counters_;
  std::optional<Publisher> publisher_;
  uint64_t ring_epoch_ = 0;
};

TEST_F(DiskRecordsTest, ThePoolsRecordTakesThePlaceOfTheDisksAndIsFollowedByIt) {
  Load();
  Upkeep();
  EXPECT_TRUE(IsServed(Tier::kMemory));
  Evict();
  EXPECT_EQ(host_.records(), 0u);
  Upkeep();
  EXPECT_TRUE(IsServed(Tier::kDisk));
}

// With the pool's record went the disk's, whose place it had taken, and the next one belongs
// elsewhere.
TEST_F(DiskRecordsTest, AShardHearsAgainOfAPageThatWasEvictedWhileItWasUnreachable) {
  Load();
  Upkeep();
  ASSERT_TRUE(IsServed(Tier::kMemory));
  const PeerRef peer = peers_.Find(kShard);
  const uint64_t epoch = peer->epoch();
  TheShardIs(kUnreachable);
  Upkeep();
  Evict();
  Upkeep();
  ASSERT_EQ(host_.records(), 0u);
  TheShardIs(kInTheRing);
  Upkeep();
  EXPECT_TRUE(IsServed(Tier::kDisk));
  EXPECT_EQ(peer->epoch(), epoch) << "it has answered all the time";
}

TEST_F(DiskRecordsTest, AShardHearsAgainOfAPageThatRepairHasWithdrawnFromIt) {
  Load();
  Upkeep();
  ASSERT_TRUE(IsServed(Tier::kMemory));
  const PeerRef peer = peers_.Find(kShard);
  std::this_thread::sleep_until(peer->SilentAfter());  // or the pool's note stays
  TheShardIs(kNotInTheRing);
  Upkeep();
  ASSERT_EQ(host_.records(), 0u);
  Evict();
  Upkeep();
  TheShardIs(kInTheRing);
  Upkeep();
  EXPECT_TRUE(IsServed(Tier::kDisk));
}

// It has come back before a record of the disk was published again, so there is none that it could
// be found by.
TEST_F(DiskRecordsTest, AShardWhoseBreakerWasOpenHearsOfWhatHasComeBackMeanwhile) {
  Load();
  Upkeep();
  Evict();
  Load();
  const PeerRef peer = peers_.Find(kShard);
  while (peer->health().Allows(Clock::now())) peer->health().Failed(Clock::now());
  Upkeep();
  EXPECT_EQ(host_.records(), 0u);
  peer->health().Succeeded();
  EXPECT_TRUE(Eventually([this] {
    Upkeep();
    return host_.records() == 1;
  }));
  EXPECT_TRUE(IsServed(Tier::kMemory));
}

// Two ways to be refused: in a pass over all pages, and when a page has just been stored.
TEST_F(DiskRecordsTest, AShardThatWasFullIsToldWhenItHasRoom) {
  const auto is_told = [this] {
    Upkeep();
    publisher_->KeepAlive();
    return Served(Tier::kDisk);
  };
  TheShardIsFull(8);
  EXPECT_FALSE(Served(Tier::kDisk));
  EXPECT_EQ(host_.Others(0), 0u);
  EXPECT_TRUE(Eventually(is_told));
  tier_->Clear(kTag, 1);
  EXPECT_TRUE(Eventually([this] {
    Upkeep();
    return host_.records() == 0;
  }));
  ASSERT_EQ(host_.Others(8), 8u);
  Store(key_);
  ASSERT_TRUE(tier_->Flush(Clock::now() + testing::kEndsAHang).ok());
  Upkeep();
  EXPECT_FALSE(Served(Tier::kDisk));
  host_.Others(0);
  EXPECT_TRUE(Eventually(is_told));
}

TEST_F(DiskRecordsTest, AShardThatIsFullIsAskedOnceAPass) {
  for (uint64_t n = 2; n < 5000; ++n) Store(KeyOf(n));
  ASSERT_TRUE(tier_->Flush(Clock::now() + testing::kEndsAHang).ok());
  Upkeep();
  ASSERT_EQ(host_.records(), 4999u);
  TheShardIsFull(8);
  for (const uint64_t before = counters_.repair_passes; counters_.repair_passes < before + 3;) {
    const uint64_t asked = counters_.publish_messages, passes = counters_.repair_passes;
    Upkeep();
    EXPECT_EQ(counters_.publish_messages - asked, counters_.repair_passes - passes);
  }
}

// A pass over all pages of a large disk takes half a minute.
TEST_F(DiskRecordsTest, WhatIsStoredWhileAPassGoesOnIsToldMeanwhile) {
  for (uint64_t n = 2; n < 5 * kStep; ++n) Store(KeyOf(n));
  ASSERT_TRUE(tier_->Flush(Clock::now() + testing::kEndsAHang).ok());
  Upkeep();
  TheShardIs(kInTheRing);  // another ring, in which all are where they should be
  ASSERT_FALSE(publisher_->Repair(*views_.Get()));
  Store(KeyOf(0));
  ASSERT_TRUE(tier_->Flush(Clock::now() + testing::kEndsAHang).ok());
  const uint64_t before = host_.records();
  records_.TellDirectory();
  EXPECT_EQ(host_.records(), before + 1);
  EXPECT_GT(publisher_->backlog(), kStep) << "the pass is not over";
  // Where rings change all the time every page has its turn.
  for (int step = 0; step < 5; ++step) {
    ASSERT_FALSE(publisher_->Repair(*views_.Get()));
    TheShardIs(step % 2 == 0 ? kNotInTheRing : kInTheRing);
  }
  EXPECT_TRUE(Repair());
}

// As threads that end reads and writes do.
TEST_F(DiskRecordsTest, WhoHearsOfAPageThatHasGoneDoesNotWaitForTheDirectory) {
  const std::vector<disk::DiskPage> gone(size_t{1} << 21,
                                         disk::DiskPage{.key = key_, .note = kEverywhereNote});
  records_.Gone(gone);
  std::atomic<bool> over{false};
  std::thread thread([&] {
    for (int i = 0; i < 120; ++i) records_.Dropped(std::span(gone).first(1));
    over = true;
  });
  EXPECT_TRUE(Eventually([&] { return over.load(); }));
  thread.join();
}

TEST_F(DiskRecordsTest, AShardThatThePoolsRecordHasNotReachedKeepsTheDisksAndHearsWhenItGoes) {
  Load();
  TheShardIs(kUnreachable);
  Upkeep();
  Evict();
  Upkeep();
  EXPECT_TRUE(IsServed(Tier::kDisk));
  EXPECT_EQ(host_.records(), 1u);
  tier_->Clear(kTag, 1);
  EXPECT_TRUE(Eventually([this] {
    Upkeep();
    return host_.records() == 0;
  }));
}

}  // namespace
}  // namespace peercache
