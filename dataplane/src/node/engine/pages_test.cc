// Pages, against a real node that has a part of the directory.
#include "node/engine/pages.h"

#include <gtest/gtest.h>

#include <thread>

#include "node/clear/clears.h"
#include "node/integration/node_testing.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

using std::chrono::seconds;
using testing::TestCluster;

constexpr size_t kPage = 4 * kKiB;
constexpr Duration kStall = seconds(1);
const uint64_t kSelf = NodeHash("self");

// A pool in which it takes longer to note what the own shard gets than a shard may take to answer.
class SlowHoldings final : public Holdings {
 public:
  explicit SlowHoldings(Pool* pool) : pool_(pool) {}
  uint64_t pages() const override { return pool_.pages(); }
  uint64_t most_held() const override { return pool_.most_held(); }
  bool Next(uint64_t* at, std::vector<NotedPage>* pages) const override {
    return pool_.Next(at, pages);
  }
  Hold Take(const PageAt& at, Record* record) override { return pool_.Take(at, record); }
  void Note(std::span<const PageAt> pages, uint16_t peer) override {
    if (peer == Peers::kSelf) std::this_thread::sleep_for(kStall * 5 / 4);
    pool_.Note(pages, peer);
  }
  bool Unnote(const PageAt& page, uint16_t peer) override { return pool_.Unnote(page, peer); }
  void Told(const PageAt& page, TimePoint now) override { pool_.Told(page, now); }

 private:
  PoolHoldings pool_;
};

class PagesTest : public ::testing::Test {
 protected:
  PagesTest() {
    Member peer;
    peer.id = "peer";
    peer.incarnation = 1;
    peer.state = MemberState::kActive;
    peer.host = "127.0.0.1";
    peer.peer_port = node_->peer_port();
    auto view = std::make_shared<View>();
    view->epoch = 1;
    view->members = {peer};
    view->by_node[kPeer] = 0;
    const RingMember ring[] = {{kSelf, 1}, {kPeer, 1}};
    view->current = view->next = Ring(ring, 8);
    peers_.Update(*view);
    views_.Set(view);
    // One key of each shard.
    for (const uint64_t owner : {kSelf, kPeer}) {
      uint64_t n = 0;
      while (view->current.OwnerOf(testing::KeyOf(n)) != owner) ++n;
      keys_.push_back(testing::KeyOf(n));
    }
  }
  std::vector<uint8_t> Set() {
    const std::vector<std::byte> bytes(kPage);
    const std::vector<ConstBytes> segments(keys_.size(), ConstBytes(bytes));
    std::vector<uint8_t> ok(keys_.size());
    pages_.Set(keys_, segments, 1, 1, ok);
    return ok;
  }

  const uint64_t kPeer = NodeHash("peer");
  TestCluster cluster_;
  std::unique_ptr<Node> node_ = cluster_.Start("peer");
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", kSelf, 1}, secret_.get(), OwnerTimes{}};
  std::unique_ptr<Pool> pool_ = MakePool(8 * kMiB);
  Shard shard_{ShardOptions{.self = kSelf}};
  SlowHoldings holdings_{pool_.get()};
  Views views_;
  Counters counters_;
  Publisher publisher_{
      {.incarnation = 1, .lease = seconds(1), .peer_timeout = seconds(20), .stall = kStall},
      &shard_,
      &holdings_,
      &peers_,
      &views_,
      &counters_};
  Locator locator_{{.stall = kStall}, &shard_, &peers_, nullptr, nullptr, &counters_};
  Replicas replicas_{nullptr, {}};
  Room room_{pool_.get()};
  Clears clears_{{}, &peers_, &views_, &counters_, [](const ClearOrder&) { return size_t{0}; }};
  Pages pages_{{.lease = seconds(1), .peer_timeout = seconds(20), .stall = kStall},
               pool_.get(),
               &views_,
               &peers_,
               &publisher_,
               &locator_,
               &replicas_,
               &room_,
               {},
               &clears_,
               &counters_};
  std::vector<Key> keys_;
};

// The time in which the peer's shard must answer begins when it is asked.
TEST_F(PagesTest, TheOwnShardsPartOfASetTakesNoTimeFromTheOthers) {
  EXPECT_EQ(Set(), (std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(peers_.Find(kPeer)->health().trips(), 0u);
}

}  // namespace
}  // namespace peercache
