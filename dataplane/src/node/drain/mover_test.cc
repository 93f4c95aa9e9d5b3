// Mover against peers that take what they are told to, do not know the message, or die.
#include "node/drain/mover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <vector>

#include "pool/pool_testing.h"
#include "transport/tcp/server.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;

constexpr size_t kPage = 64 * kKiB;

// Bytes that all peers together have been offered and have not answered for.
class OnOffer {
 public:
  void Add(int64_t bytes) {
    std::lock_guard lock(mutex_);
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  int64_t most() {
    std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  std::mutex mutex_;
  int64_t now_ = 0, most_ = 0;
};

// What a peer makes of an offer.
class TakingPeer : public PeerService {
 public:
  enum class Is : uint8_t { kWilling, kOlder, kFull, kStuck, kLeaving, kDying };

  TakingPeer(std::string id, Is is, OnOffer* on_offer)
      : id_(std::move(id)), is_(is), on_offer_(on_offer) {
    auto listener = Listen("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok());
    server_ = std::make_unique<TcpServer>(std::move(*listener), this, TcpServerOptions{});
  }

  Member member() const {
    Member m;
    m.id = id_;
    m.incarnation = 1;
    m.state = MemberState::kActive;
    m.host = "127.0.0.1";
    m.peer_port = server_->port();
    return m;
  }
  size_t taken() {
    std::lock_guard lock(mutex_);
    return taken_.size();
  }

  Status OnHello(const Hello&, Greeting* answer) override {
    *answer = {{NodeHash(id_), 1}};
    return {};
  }
  Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override {
    answer->Start(MessageType::kOfferOk, header.request_id);
    OfferRequest offer;
    if (header.type != MessageType::kOffer || is_ == Is::kOlder)
      return Corrupt("a node cannot be asked for message type 34");
    EXPECT_TRUE(offer.Decode(&body));
    if (is_ == Is::kLeaving) return Status(Code::kAborted, "this node leaves, too");
    OfferAnswer says;
    says.room = 1 << 30;
    std::lock_guard lock(mutex_);
    if (offer.items.empty()) {
      says.done = 1;
    } else if (is_ == Is::kDying) {
      return Corrupt("the end");
    } else if (is_ != Is::kStuck && offer.batch == last_) {
      says.done = 1;
      on_offer_->Add(-Bytes(offer));
      for (const OfferItem& item : offer.items) {
        says.outcomes.push_back(is_ == Is::kFull ? kNoRoom : kTaken);
        if (is_ == Is::kFull) continue;
        EXPECT_TRUE(taken_.insert(item.key.Word(3)).second);
      }
    }
    if (says.done == 0 && offer.batch != last_) on_offer_->Add(Bytes(offer));
    last_ = offer.batch;
    says.Encode(&answer->frame);
    return {};
  }

 private:
  static int64_t Bytes(const OfferRequest& offer) {
    int64_t bytes = 0;
    for (const OfferItem& item : offer.items) bytes += item.length;
    return bytes;
  }

  const std::string id_;
  const Is is_;
  OnOffer* const on_offer_;
  std::mutex mutex_;
  uint64_t last_ = 0;  // offer: the second time it is made it is done
  std::set<uint64_t> taken_;
  std::unique_ptr<TcpServer> server_;
};
using Is = TakingPeer::Is;

class MoverTest : public ::testing::Test {
 protected:
  void Join(std::initializer_list<Is> peers) {
    auto view = std::make_shared<View>();
    for (const Is is : peers) {
      peers_.push_back(
          std::make_unique<TakingPeer>("peer" + std::to_string(peers_.size()), is, &on_offer_));
      const Member m = peers_.back()->member();
      view->by_node[NodeHash(m.id)] = view->members.size();
      view->members.push_back(m);
    }
    table_.Update(*view);
    views_.Set(view);
  }
  void Move(uint64_t budget, Duration limit = 30s) {
    Mover mover(1, 5s, pool_.get(), &table_, &views_, &counters_);
    mover.Move(budget, Clock::now() + limit);
  }
  void PutPages(uint64_t count) {
    for (uint64_t n = 0; n < count; ++n) Put(*pool_, n, kPage);
  }

  std::unique_ptr<Pool> pool_ = MakePool(32 * kMiB);
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers table_{Hello{"test", "", NodeHash("leaver"), 1}, secret_.get(),
               OwnerTimes{.lease = 1000ms, .owner_ttl = 3000ms}};
  Views views_;
  Counters counters_;
  OnOffer on_offer_;
  std::vector<std::unique_ptr<TakingPeer>> peers_;
};

TEST_F(MoverTest, EveryPageIsTakenByOnePeer) {
  PutPages(300);
  Join({Is::kWilling, Is::kWilling});
  Move(1 << 30);
  EXPECT_EQ(peers_[0]->taken() + peers_[1]->taken(), 300u);
  EXPECT_GT(peers_[0]->taken(), 50u);
  EXPECT_GT(peers_[1]->taken(), 50u);
  EXPECT_EQ(counters_.drain_planned, 300u);
  EXPECT_EQ(counters_.drain_moved, 300u);
  EXPECT_EQ(counters_.drain_moved_bytes, 300 * kPage);
  EXPECT_EQ(counters_.drain_left, 0u);
}

TEST_F(MoverTest, AllPeersTogetherReadNoMoreThanTheNetworkCanSendInTime) {
  pool_ = MakePool(128 * kMiB);
  for (uint64_t n = 0; n < 90; ++n) {
    auto slot = pool_->Reserve(kMiB);  // nobody looks at the bytes
    ASSERT_TRUE(slot.ok()) << slot.status().ToString();
    (void)pool_->Commit(std::move(*slot), KeyOf(n), 0, 0, nullptr);
  }
  Join({Is::kWilling, Is::kWilling, Is::kWilling});
  Move(1 << 30);
  EXPECT_EQ(counters_.drain_moved, 90u);
  EXPECT_LE(on_offer_.most(), static_cast<int64_t>(kUnderWay));
  EXPECT_GE(on_offer_.most(), static_cast<int64_t>(kUnderWay / 2));
}

TEST_F(MoverTest, TheBudgetGoesToThePagesThatWereReadMost) {
  PutPages(64);
  for (uint64_t n = 20; n < 30; ++n) EXPECT_TRUE(pool_->Find(KeyOf(n)));
  Put(*pool_, 1000, kPage, 0, PageKind::kReplica);
  Join({Is::kWilling});
  Move(10 * kPage);
  EXPECT_EQ(peers_[0]->taken(), 10u);
  EXPECT_EQ(counters_.drain_moved, 10u);
  EXPECT_EQ(counters_.drain_left, 54u) << "the replica is not of this node";
  EXPECT_EQ(counters_.drain_left_bytes, 54 * kPage);
}

TEST_F(MoverTest, WhoCannotTakeIsLeftAloneAndOthersTakeInstead) {
  PutPages(100);
  Join({Is::kOlder, Is::kDying, Is::kLeaving, Is::kWilling});
  Move(1 << 30);
  EXPECT_EQ(peers_[3]->taken(), 100u);
  EXPECT_EQ(counters_.drain_moved, 100u);
  EXPECT_EQ(counters_.drain_failed, 0u);
}

TEST_F(MoverTest, WhatIsRefusedIsCountedAndNotOfferedAgain) {
  PutPages(100);
  Join({Is::kFull});
  Move(1 << 30);
  EXPECT_EQ(counters_.drain_refused, 100u);
  EXPECT_EQ(counters_.drain_refused_bytes, 100 * kPage);
  EXPECT_EQ(counters_.drain_moved, 0u);
}

TEST_F(MoverTest, APeerThatNeverFinishesCostsNoMoreThanTheTime) {
  PutPages(10);
  Join({Is::kStuck});
  const TimePoint start = Clock::now();
  Move(1 << 30, 500ms);
  EXPECT_GE(Clock::now() - start, 500ms);
  EXPECT_EQ(counters_.drain_moved, 0u);
  EXPECT_EQ(counters_.drain_left, 10u);
}

TEST_F(MoverTest, NobodyThereOrNothingToMoveIsNoWait) {
  const TimePoint start = Clock::now();
  Move(1 << 30);  // without a view
  PutPages(10);
  Move(1 << 30);
  Join({});
  Move(1 << 30);
  Join({Is::kDying});
  Move(1 << 30);
  Join({Is::kWilling});
  Move(0);
  EXPECT_EQ(peers_.back()->taken(), 0u);
  EXPECT_LT(Clock::now() - start, 15s);
}

}  // namespace
}  // namespace peercache
