// Intake beside a holder that answers reads when it is told to: what becomes of an offer while
// pages are cleared, the node leaves, or somebody else offers, too.
#include "node/drain/intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>

#include "base/checksum.h"
#include "node/read/tcp_reader.h"
#include "pool/heat.h"
#include "pool/pool_testing.h"
#include "transport/tcp/read_testing.h"
#include "transport/tcp/server.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr size_t kPage = 64 * kKiB;
const uint64_t kSelf = NodeHash("self"), kHolder = NodeHash("holder");

// Has every page. While it holds, reads are heard and not answered.
class Holder : public PeerService {
 public:
  Holder() {
    auto listener = Listen("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok());
    server_ = std::make_unique<TcpServer>(std::move(*listener), this, TcpServerOptions{});
  }
  ~Holder() override { Hold(false); }

  void Hold(bool hold) {
    {
      std::lock_guard lock(mutex_);
      hold_ = hold;
    }
    changed_.notify_all();
  }
  void AwaitHeld() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] { return held_ > 0; }));
  }
  Record RecordOf(uint64_t number) {
    const PagePin pin = Put(*pool_, number, kPage);
    Record record;
    record.node = kHolder;
    record.incarnation = 1;
    record.offset = pin.offset();
    record.generation = pin.header().generation;
    record.length = kPage;
    record.lease_ms = 60'000;
    record.checksum = Checksum(pin.payload());
    return record;
  }
  uint16_t port() const { return server_->port(); }

  Status OnHello(const Hello&, Greeting* answer) override {
    *answer = {{kHolder, 1}};
    return {};
  }
  Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override {
    ReadRequest request;
    if (!request.Decode(&body)) return Corrupt("malformed Read");
    {
      std::unique_lock lock(mutex_);
      ++held_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return !hold_; });
      --held_;
    }
    testing::AnswerRead(pool_.get(), request, header.request_id, answer);
    return {};
  }

 private:
  std::unique_ptr<Pool> pool_ = MakePool(8 * kMiB);
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hold_ = false;
  int held_ = 0;
  std::unique_ptr<TcpServer> server_;
};

std::vector<OfferItem> Items(std::initializer_list<uint64_t> numbers, uint32_t heat = 3) {
  std::vector<OfferItem> items;
  for (const uint64_t n : numbers) items.push_back({KeyOf(n), 1, kPage, heat});
  return items;
}
OfferRequest OfferOf(uint64_t from, uint64_t batch, std::vector<OfferItem> items) {
  return {from, batch, std::move(items)};
}

class IntakeTest : public ::testing::Test {
 protected:
  IntakeTest() {
    auto view = std::make_shared<View>();
    view->epoch = 1;
    for (const char* id : {"self", "holder"}) {
      Member m;
      m.id = id;
      m.incarnation = 1;
      m.state = MemberState::kActive;
      m.host = "127.0.0.1";
      m.peer_port = holder_.port();
      view->by_node[NodeHash(id)] = view->members.size();
      view->members.push_back(m);
    }
    const RingMember ring[] = {{kSelf, 1}};  // records are with the shard of this node
    view->current = view->next = Ring(ring, 8);
    peers_.Update(*view);
    views_.Set(view);
    Start();
  }
  // Anew, with the options and the pool of now.
  void Start() {
    intake_.reset();
    intake_ = std::make_unique<Intake>(options_, pool_.get(), &peers_, &views_, &publisher_,
                                       &locator_, &room_, std::vector<PageReader*>{&tcp_reader_},
                                       &counters_, [this] { return reserve_; });
  }
  void HolderHas(std::initializer_list<uint64_t> numbers) {
    OwnerStamp stamp{
        .node = kHolder, .incarnation = 1, .epoch = 1, .ttl_ms = 60'000, .lease_ms = 60'000};
    EXPECT_TRUE(shard_.Contact(stamp, Clock::now()).ok());
    stamp.echo = shard_.Voice(kHolder, Clock::now()).stamp;
    std::vector<PublishItem> items;
    for (const uint64_t n : numbers) items.push_back({KeyOf(n), holder_.RecordOf(n)});
    std::vector<uint8_t> outcomes(items.size());
    EXPECT_TRUE(shard_.Publish(stamp, items, outcomes, Clock::now()).ok());
  }
  OfferAnswer Ask(const OfferRequest& offer) {
    auto answer = intake_->Answer(offer);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    return answer.ok() ? *answer : OfferAnswer{};
  }
  std::vector<uint8_t> Await(const OfferRequest& offer) {
    const TimePoint deadline = Clock::now() + 60s;
    OfferAnswer answer = Ask(offer);
    while (answer.done == 0 && Clock::now() < deadline) {
      std::this_thread::sleep_for(2ms);
      answer = Ask(offer);
    }
    EXPECT_EQ(answer.done, 1);
    return answer.outcomes;
  }
  uint64_t Done() const {
    return counters_.taken + counters_.not_taken_failed + counters_.not_taken_room;
  }
  void AwaitDone(uint64_t pages) {
    const TimePoint deadline = Clock::now() + 60s;
    while (Done() < pages && Clock::now() < deadline) std::this_thread::sleep_for(2ms);
    EXPECT_EQ(Done(), pages);
  }

  IntakeOptions options_{
      .lease = 60s, .peer_timeout = 30s, .stall = 30s, .verify = ChecksumPolicy::kAll, .keep = 60s};
  Holder holder_;
  std::unique_ptr<Pool> pool_ = MakePool(8 * kMiB);
  size_t reserve_ = 0;
  Shard shard_{{.self = kSelf, .owner_ttl = 60s}};
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", kSelf, 1}, secret_.get(),
               OwnerTimes{.lease = 60s, .owner_ttl = 60s}};
  Views views_;
  Counters counters_;
  PoolHoldings holdings_{pool_.get()};
  Publisher publisher_{
      {.incarnation = 1, .lease = milliseconds(60'000), .peer_timeout = 30s, .stall = 30s},
      &shard_,
      &holdings_,
      &peers_,
      &views_,
      &counters_};
  Locator locator_{{.stall = 30s}, &shard_, &peers_, nullptr, nullptr, &counters_};
  TcpReader tcp_reader_{{.lease = 60s, .stall = 30s}, &peers_};
  Room room_{pool_.get()};
  std::unique_ptr<Intake> intake_;
};

TEST_F(IntakeTest, TakesWhatTheHolderHas) {
  HolderHas({1, 2});
  EXPECT_THAT(Await(OfferOf(7, 1, Items({1, 2, 3}))), ElementsAre(kTaken, kTaken, kNotTaken));
  EXPECT_TRUE(IsPageOf(pool_->Find(KeyOf(1)), KeyOf(1)));
  EXPECT_TRUE(IsPageOf(pool_->Find(KeyOf(2)), KeyOf(2)));
}

TEST_F(IntakeTest, WhatWasReadBeforeAClearIsNotCommitted) {
  HolderHas({1, 2});
  Put(*pool_, 3, kPage, /*tag=*/5);
  holder_.Hold(true);
  const OfferRequest offer = OfferOf(7, 1, Items({1, 2, 3}));
  EXPECT_EQ(Ask(offer).done, 0);
  holder_.AwaitHeld();
  intake_->Forget();
  size_t busy = 9;
  EXPECT_EQ(pool_->TakeTagged(5, &busy).size(), 1u);
  EXPECT_EQ(busy, 0u) << "a page that is here need not wait for the others";
  holder_.Hold(false);
  EXPECT_THAT(Await(offer), Each(kNotTaken));
  EXPECT_EQ(pool_->stats().pages, 0u);
}

TEST_F(IntakeTest, WhatIsHereIsNotPublishedAfterAClear) {
  HolderHas({1});
  const PagePin replica = Put(*pool_, 3, kPage, 5, PageKind::kReplica);  // in use: not cleared yet
  holder_.Hold(true);
  const OfferRequest offer = OfferOf(7, 1, Items({1, 3}));
  EXPECT_EQ(Ask(offer).done, 0);
  holder_.AwaitHeld();
  intake_->Forget();
  holder_.Hold(false);
  EXPECT_THAT(Await(offer), Each(kNotTaken));
  EXPECT_TRUE(pool_->Find(KeyOf(3)).replica());
  EXPECT_THAT(Await(OfferOf(7, 2, Items({1, 3}))), Each(kTaken));
  EXPECT_FALSE(pool_->Find(KeyOf(3)).replica());
}

TEST_F(IntakeTest, WhoLeavesItselfTakesNothing) {
  HolderHas({1});
  intake_->Close();
  EXPECT_EQ(intake_->Answer(OfferOf(7, 1, Items({1}))).status().code(), Code::kAborted);
  EXPECT_EQ(intake_->Answer(OfferOf(7, 1, {})).status().code(), Code::kAborted);
  intake_.reset();  // whatever it had begun is over now
  EXPECT_EQ(Done(), 0u);
  EXPECT_EQ(pool_->stats().pages, 0u);
}

TEST_F(IntakeTest, TwoLeaversBothHearWhatBecameOfTheirOffers) {
  HolderHas({1, 2});
  const OfferRequest one = OfferOf(7, 1, Items({1, 1000})), other = OfferOf(8, 1, Items({2}));
  EXPECT_EQ(Ask(one).done, 0);
  AwaitDone(2);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Ask(other).done, 0);
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_THAT(Await(one), ElementsAre(kTaken, kNotTaken));
  EXPECT_EQ(Done(), 2u) << "the other one has not begun";
  EXPECT_THAT(Await(other), ElementsAre(kTaken));
  EXPECT_EQ(Done(), 3u) << "nothing was done twice";
}

TEST_F(IntakeTest, ALeaverThatNeverAsksAgainIsNotWaitedFor) {
  HolderHas({1, 2});
  options_.keep = 50ms;
  Start();
  EXPECT_EQ(Ask(OfferOf(7, 1, Items({1}))).done, 0);
  EXPECT_THAT(Await(OfferOf(8, 1, Items({2}))), ElementsAre(kTaken));
}

TEST_F(IntakeTest, NoHeatOnTheWireIsMoreThanTheMost) {
  HolderHas({1});
  pool_->Warm(Put(*pool_, 100, kPage), kMostHeat);
  reserve_ = pool_->size();  // nothing is to spare
  EXPECT_THAT(Await(OfferOf(7, 1, Items({1}, UINT32_MAX))), ElementsAre(kNoRoom));
  EXPECT_THAT(Await(OfferOf(7, 2, Items({1}, kMostHeat))), ElementsAre(kNoRoom));
}

TEST_F(IntakeTest, EachPageThatComesIsWeighedAgainstAnother) {
  HolderHas({1, 2, 3, 4});
  for (uint64_t n = 100; n < 110; ++n) pool_->Warm(Put(*pool_, n, kPage), n < 102 ? 0 : 5);
  reserve_ = pool_->size();  // nothing is to spare, nor does anything go yet
  EXPECT_THAT(Await(OfferOf(7, 1, Items({1, 2, 3, 4}, 2))),
              ElementsAre(kTaken, kTaken, kNoRoom, kNoRoom));
}

}  // namespace
}  // namespace peercache
