// Publisher against a real shard on the other side of a socket that restarts, answers late and
// leaves the view: as long as the shard may serve a record of a page, the page's note of the shard
// stays, because eviction withdraws from the noted shards alone.
#include "node/owner/publisher.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "node/owner/shard_host_testing.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

constexpr size_t kPage = 4 * kKiB;
constexpr OwnerTimes kTimes{.lease = milliseconds(50), .owner_ttl = milliseconds(1000)};
const uint64_t kOwner = NodeHash("owner"), kShard = NodeHash("shard");

// A node that holds one page, whose record belongs to the other node's shard at first.
class PublisherTest : public testing::Test {
 protected:
  PublisherTest() {
    peers_.Update(*with_shard_);
    views_.Set(with_shard_);
    // What a former process of this node may have left behind is over.
    std::this_thread::sleep_for(Padded(kTimes.owner_ttl) + Padded(kTimes.lease));
    Put(*pool_, 1, kPage);
  }

  std::shared_ptr<const View> MakeView(uint64_t epoch, bool member, uint64_t owner,
                                       bool reachable = true) const {
    auto view = std::make_shared<View>();
    view->epoch = epoch;
    std::vector<std::string> ids{"owner"};
    if (member) ids.emplace_back("shard");
    for (const std::string& id : ids) {
      Member m;
      m.id = id;
      m.incarnation = 1;
      m.state = MemberState::kActive;
      m.host = "127.0.0.1";
      m.peer_port = host_.port();
      view->by_node[NodeHash(id)] = view->members.size();
      view->members.push_back(m);
    }
    const RingMember ring[] = {{owner, 1}};
    view->current = view->next = Ring(ring, 8);
    if (!reachable) view->unreachable = {kShard};
    return view;
  }
  bool Publish(Duration limit = milliseconds(10'000)) {
    std::vector<HeldPage> pages(1);
    pages[0].key = key_;
    PagePin pin = pool_->Find(key_);
    pages[0].record = publisher_.RecordOf(pin);
    pages[0].hold = std::move(pin);
    uint8_t ok[1];
    publisher_.Publish(pages, ok, Clock::now() + limit);
    return ok[0] != 0;
  }
  bool Noted() const {
    bool noted = false;
    pool_->ForEachReady([&](const PageInfo& page) {
      noted = page.published_to.Contains(peers_.Find(kShard)->index());
    });
    return noted;
  }
  // Evicts the page; when its slot may be written.
  TimePoint Evict() {
    const auto victims = pool_->TakeVictims(1, kPage);
    EXPECT_EQ(victims.size(), 1u);
    TimePoint reuse_at[1];
    publisher_.Withdraw(victims, reuse_at);
    return reuse_at[0];
  }
  // A whole pass.
  bool Repair(const View& view) {
    bool right = publisher_.Repair(view);
    while (publisher_.repairing()) right = publisher_.Repair(view);
    return right;
  }
  // Repair passes until the note is gone. While it is not, nothing is said; once it is, the shard
  // must serve nothing.
  void RepairUntilTheNoteIsGone(const std::shared_ptr<const View>& view, bool former) {
    const TimePoint deadline = Clock::now() + milliseconds(20'000);
    while (Noted() && Clock::now() < deadline) {
      Repair(*view);
      if (Noted()) std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_FALSE(host_.Serves(kOwner, key_, former));
    EXPECT_FALSE(Noted());
  }

  ShardHost host_{kShard, kTimes.owner_ttl};
  const std::shared_ptr<const View> with_shard_ = MakeView(1, true, kShard),
                                    surplus_ = MakeView(2, true, kOwner),
                                    gone_ = MakeView(3, false, kOwner),
                                    unreachable_ = MakeView(4, true, kOwner, false),
                                    back_ = MakeView(5, true, kShard);
  const Key key_ = KeyOf(1);
  std::unique_ptr<Pool> pool_ = MakePool(8 * kMiB);
  Shard own_{{.self = kOwner}};
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", kOwner, 1}, secret_.get(), kTimes};
  Views views_;
  Counters counters_;
  PoolHoldings holdings_{pool_.get()};
  Publisher publisher_{{.incarnation = 1,
                        .lease = kTimes.lease,
                        .peer_timeout = milliseconds(10'000),
                        .stall = milliseconds(10'000)},
                       &own_,
                       &holdings_,
                       &peers_,
                       &views_,
                       &counters_};
};

TEST_F(PublisherTest, APageThatTheShardNeedNotKnowAnyMoreIsWithdrawnFromIt) {
  ASSERT_TRUE(Publish());
  ASSERT_TRUE(host_.Serves(kOwner, key_));
  EXPECT_TRUE(Noted());
  RepairUntilTheNoteIsGone(surplus_, false);
  const Key keys[] = {key_};
  Record found[1];
  own_.Lookup(keys, 99, {}, found, Clock::now());
  EXPECT_EQ(found[0].node, kOwner);
  EXPECT_EQ(found[0].lease_ms, 50u);
}

// It has sent nothing that could arrive late, so what the shard has of this node stays good.
TEST_F(PublisherTest, AShardThatWouldHaveNoTimeToAnswerIsNeitherAskedNorBlamed) {
  ASSERT_TRUE(Publish());
  const PeerRef peer = peers_.Find(kShard);
  const uint64_t epoch = peer->epoch(), sent = counters_.publish_messages;
  EXPECT_FALSE(Publish(Duration::zero()));
  EXPECT_EQ(counters_.publish_messages, sent);
  EXPECT_EQ(peer->health().trips(), 0u);
  EXPECT_EQ(peer->epoch(), epoch);
  EXPECT_TRUE(host_.Serves(kOwner, key_));
}

TEST_F(PublisherTest, KeepalivesMeasureTheRoundTrip) {
  const PeerRef peer = peers_.Find(kShard);
  EXPECT_EQ(peer->way(0).round_trip, Duration::zero());
  publisher_.KeepAlive();
  EXPECT_GT(peer->way(0).round_trip, Duration::zero());
  EXPECT_LT(peer->way(0).round_trip, std::chrono::seconds(10));
}

TEST_F(PublisherTest, ANoteStaysWhileAFormerProcessOfTheShardMayServe) {
  ASSERT_TRUE(Publish());
  host_.Restart();
  publisher_.KeepAlive();  // learns of it
  ASSERT_TRUE(host_.Serves(kOwner, key_, true));
  RepairUntilTheNoteIsGone(surplus_, true);
}

// Such a note says of the present process nothing.
TEST_F(PublisherTest, AShardThatIsWantedAgainBeforeTheFormerOneIsSilentIsToldAgain) {
  ASSERT_TRUE(Publish());
  host_.Restart();
  publisher_.KeepAlive();  // learns of it
  ASSERT_TRUE(Repair(*with_shard_));
  ASSERT_TRUE(Repair(*surplus_));
  ASSERT_EQ(host_.records(), 0u);
  ASSERT_TRUE(Repair(*back_));
  EXPECT_EQ(host_.records(), 1u);
}

TEST_F(PublisherTest, ANoteStaysWhileAPublishIsUnderWay) {
  ASSERT_TRUE(Publish());
  host_.Hold(true);
  std::thread set([&] { EXPECT_TRUE(Publish()); });  // of a duplicate, in the former view
  host_.AwaitHeld();
  Repair(*surplus_);
  host_.Hold(false);
  set.join();
  ASSERT_TRUE(host_.Serves(kOwner, key_));
  EXPECT_TRUE(Noted());
  RepairUntilTheNoteIsGone(surplus_, false);
}

TEST_F(PublisherTest, WhileAShardIsToldOfAllPagesThoseThatWereSetLastStay) {
  constexpr size_t kLarge = 96 * kKiB;  // 64 of them fill most of the pool
  for (uint64_t n = 2; n <= 64; ++n) ASSERT_TRUE(Put(*pool_, n, kLarge));
  host_.Hold(true);
  std::thread repair([&] { Repair(*with_shard_); });
  host_.AwaitHeld();
  std::set<Key> old;
  for (uint64_t n = 1; n <= 32; ++n) old.insert(KeyOf(n));
  const auto victims = pool_->TakeVictims(8 * kLarge, kLarge);
  EXPECT_GE(victims.size(), 7u);
  for (const Victim& victim : victims) EXPECT_TRUE(old.contains(victim.key));
  host_.Hold(false);
  repair.join();
}

TEST_F(PublisherTest, PagesThatAreNotYetInPlaceAreTheBacklog) {
  host_.Hold(true);
  std::thread repair([&] { EXPECT_TRUE(Repair(*with_shard_)); });
  host_.AwaitHeld();
  EXPECT_EQ(publisher_.backlog(), 1u);
  host_.Hold(false);
  repair.join();
  EXPECT_EQ(publisher_.backlog(), 0u);
}

TEST_F(PublisherTest, PagesThatAShardCouldNotBeToldOfAreTheBacklog) {
  host_.Die();
  EXPECT_FALSE(Repair(*with_shard_));
  EXPECT_EQ(publisher_.backlog(), 1u);
  EXPECT_TRUE(Repair(*unreachable_)) << "the page belongs here now";
  EXPECT_EQ(publisher_.backlog(), 0u);
}

TEST_F(PublisherTest, NothingIsExpectedOfAShardThatCannotBeReached) {
  ASSERT_TRUE(Publish());
  EXPECT_TRUE(Repair(*unreachable_)) << "nobody waits for a withdrawal from it";
  EXPECT_TRUE(Noted());
  RepairUntilTheNoteIsGone(surplus_, false);  // it is back, without a part of the ring
}

// Evictions give up on a shard that cannot be reached, and so void what it has of other pages.
TEST_F(PublisherTest, AShardThatCanBeReachedAgainIsToldOfEverythingAgain) {
  ASSERT_TRUE(Publish());
  ASSERT_TRUE(Repair(*with_shard_));
  EXPECT_EQ(peers_.breakers(Clock::now()).unsynced, 0u);
  peers_.Find(kShard)->GiveUp();
  EXPECT_EQ(peers_.breakers(Clock::now()).unsynced, 1u);
  EXPECT_TRUE(Repair(*unreachable_));
  publisher_.KeepAlive();
  EXPECT_FALSE(host_.Serves(kOwner, key_)) << "of a lower epoch";
  EXPECT_TRUE(Repair(*back_));
  EXPECT_TRUE(host_.Serves(kOwner, key_));
}

TEST_F(PublisherTest, ANoteOfAShardThatIsGoneStaysUntilItIsSilentAboutTheLastEpochToo) {
  ASSERT_TRUE(Publish());
  peers_.Update(*gone_);  // gives up the epoch
  std::this_thread::sleep_for(kTimes.owner_ttl * 3 / 4);
  ASSERT_TRUE(Publish());  // somebody still has the former view, and the shard lives
  ASSERT_TRUE(Publish());  // which brings back the shard's stamp of just now
  ASSERT_TRUE(host_.Serves(kOwner, key_));
  RepairUntilTheNoteIsGone(gone_, false);
}

// ---- how long an evicted slot rests

TEST_F(PublisherTest, ASlotWhosePageNobodyWasToldOfIsFreeAtOnce) {
  ASSERT_TRUE(Publish());
  const TimePoint reuse_at = Evict();
  EXPECT_LT(reuse_at, Clock::now());
  EXPECT_FALSE(host_.Serves(kOwner, key_));
}

TEST_F(PublisherTest, ASlotRestsALeaseFromWhenItsPageWasServed) {
  ASSERT_TRUE(Publish());
  const TimePoint before = Clock::now();
  ASSERT_TRUE(host_.Serves(kOwner, key_));
  std::this_thread::sleep_for(kTimes.lease / 2);
  const TimePoint reuse_at = Evict();
  EXPECT_GT(reuse_at, before + kTimes.lease);
  EXPECT_LT(reuse_at, Clock::now() + kTimes.lease * 3 / 4);
}

TEST_F(PublisherTest, TheWholeLeaseAfterAnAnswerThatDoesNotSayWhatWasServed) {
  host_.BeOlder();
  ASSERT_TRUE(Publish());
  const TimePoint before = Clock::now();
  EXPECT_GT(Evict(), before + kTimes.lease);
}

TEST_F(PublisherTest, SilenceAndALeaseWhenTheShardDoesNotAnswer) {
  ASSERT_TRUE(Publish());
  const TimePoint before = Clock::now();
  host_.Die();
  EXPECT_GT(Evict(), before + kTimes.lease);
}

TEST_F(PublisherTest, SilenceAndALeaseWhenAnotherProcessAnswers) {
  ASSERT_TRUE(Publish());
  const TimePoint before = Clock::now();
  ASSERT_TRUE(host_.Serves(kOwner, key_));
  host_.Restart();
  EXPECT_GT(Evict(), before + kTimes.owner_ttl + kTimes.lease);
}

TEST_F(PublisherTest, WhatTheHolderHasSentItselfCountsAsServed) {
  ASSERT_TRUE(Publish());
  PagePin pin = pool_->Find(key_);
  const PageAt at{pin.offset(), pin.header().generation, key_};
  pin.Release();
  const TimePoint before = Clock::now();
  PagePin asked[1];
  pool_->FindManyAt({&at, 1}, asked, before);
  asked[0].Release();
  EXPECT_GT(Evict(), before + kTimes.lease);
}

// The shard that is asked in the end has never served it. One that need not know it any more has.
TEST_F(PublisherTest, WhatAShardHasServedWhoseNoteIsGoneCountsAsServed) {
  ASSERT_TRUE(Publish());
  views_.Set(surplus_);
  ASSERT_TRUE(Publish());
  ASSERT_TRUE(host_.Serves(kOwner, key_));
  const TimePoint before = Clock::now();
  RepairUntilTheNoteIsGone(surplus_, false);
  EXPECT_GT(Evict(), before + kTimes.lease);
}

TEST_F(PublisherTest, TheOwnShardKnowsWhatItHasServed) {
  views_.Set(surplus_);
  ASSERT_TRUE(Publish());
  Record record[1];
  const TimePoint before = Clock::now();
  own_.Lookup({&key_, 1}, 99, {}, record, before);
  ASSERT_EQ(record[0].node, kOwner);
  EXPECT_GT(Evict(), before + kTimes.lease);
  Put(*pool_, 1, kPage);
  ASSERT_TRUE(Publish());
  EXPECT_LT(Evict(), Clock::now());
}

// The index of a member that is gone for good is another's later: the note must not pass for one of
// that member.
TEST_F(PublisherTest, ANoteOfAShardThatWasForgottenIsVoid) {
  ASSERT_TRUE(Publish());
  const uint16_t index = peers_.Find(kShard)->index();
  peers_.Update(*gone_);
  peers_.ForgetGone(Clock::now() + std::chrono::minutes(2));
  ASSERT_EQ(peers_.Find(kShard), nullptr);
  peers_.Update(*back_);
  ASSERT_EQ(peers_.Find(kShard)->index(), index);
  host_.Restart();  // as another member would: it knows nothing
  const TimePoint deadline = Clock::now() + milliseconds(20'000);
  while (!host_.Serves(kOwner, key_) && Clock::now() < deadline) Repair(*back_);
  EXPECT_TRUE(host_.Serves(kOwner, key_));
  // And where nobody has the index, the note goes.
  peers_.Update(*gone_);
  peers_.ForgetGone(Clock::now() + std::chrono::minutes(2));
  EXPECT_TRUE(Repair(*gone_));
  pool_->ForEachReady(
      [&](const PageInfo& page) { EXPECT_FALSE(page.published_to.Contains(index)); });
}

}  // namespace
}  // namespace peercache
