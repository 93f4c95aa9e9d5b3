// A get into device memory, by READs of the own pool. Rails are played by a reader that copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "node/engine/pages.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

using std::chrono::seconds;

constexpr size_t kPool = 16 * kMiB, kPage = 64 * kKiB;
const uint64_t kSelf = NodeHash("self");

class CopyingRails : public PageReader {
 public:
  explicit CopyingRails(Pool* pool) : pool_(pool) {}
  std::vector<size_t> Read(const ReadBatch& batch, std::vector<size_t> asked) override {
    if (at_work) at_work();
    std::vector<size_t> left;
    for (const size_t i : asked) {
      const RemotePage& page = batch.pages[i];
      const PagePin pin = pool_->FindAt(page.record.offset, page.record.generation, page.key);
      if (pin && GuardedScatter(batch.to.Of(page.page), pin.payload())) {
        batch.outcomes[i] = ReadOutcome::kReadByRdma;
      } else {
        left.push_back(i);
      }
    }
    ++calls;
    return left;
  }
  std::function<void()> at_work;
  size_t calls = 0;

 private:
  Pool* const pool_;
};

// One node, alone in its cluster.
class DeviceGet : public testing::Test {
 protected:
  DeviceGet() {
    auto view = std::make_shared<View>();
    view->epoch = 1;
    Member self;
    self.id = "self";
    self.incarnation = 1;
    self.state = MemberState::kActive;
    view->by_node[kSelf] = 0;
    view->members.push_back(self);
    const RingMember ring[] = {{kSelf, 1}};
    view->current = view->next = Ring(ring, 8);
    peers_.Update(*view);
    views_.Set(view);
    EXPECT_TRUE(clears_.Start().ok());
  }
  ~DeviceGet() override { clears_.Stop(); }

  // Page i of these is in place.
  std::vector<uint8_t> Get(size_t pages) {
    memory_.assign(pages * kPage, std::byte{0});
    std::vector<Key> keys;
    std::vector<Bytes> segments;
    for (size_t i = 0; i < pages; ++i) {
      keys.push_back(KeyOf(i));
      segments.push_back(std::span(memory_).subspan(i * kPage, kPage));
    }
    std::vector<uint8_t> ok(pages);
    pages_.Get(keys, segments, 1, ok, nullptr, true);
    for (size_t i = 0; i < pages; ++i) EXPECT_TRUE(!ok[i] || IsPageOf(segments[i], keys[i]));
    return ok;
  }

  std::unique_ptr<Pool> pool_ = MakePool(kPool);
  CopyingRails rails_{pool_.get()};
  Shard shard_{{.self = kSelf}};
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", kSelf, 1}, secret_.get(), {}};
  Views views_;
  Counters counters_;
  Room room_{pool_.get()};
  Clears clears_{
      {seconds(10), seconds(10), seconds(10)}, &peers_, &views_, &counters_, [](const ClearOrder&) {
        return size_t{0};
      }};
  PoolHoldings holdings_{pool_.get()};
  Publisher publisher_{
      {.incarnation = 1, .lease = seconds(1), .peer_timeout = seconds(10), .stall = seconds(10)},
      &shard_,
      &holdings_,
      &peers_,
      &views_,
      &counters_};
  Locator locator_{
      {.stall = seconds(10), .lease = seconds(1)}, &shard_, &peers_, nullptr, nullptr, &counters_};
  Replicas replicas_{nullptr, {}};
  Pages pages_{{.lease = seconds(1), .peer_timeout = seconds(10), .stall = seconds(10)},
               pool_.get(),
               &views_,
               &peers_,
               &publisher_,
               &locator_,
               &replicas_,
               &room_,
               {&rails_},
               &clears_,
               &counters_};
  std::vector<std::byte> memory_;
};

TEST_F(DeviceGet, OfTheWholePoolLeavesMostOfItToOthers) {
  size_t pages = 0;
  while (Put(*pool_, pages, kPage)) ++pages;
  size_t evicted = 0;
  rails_.at_work = [&] {
    rails_.at_work = nullptr;
    evicted = Evict(*pool_, kPool / 2, kPage);
  };
  const std::vector<uint8_t> ok = Get(pages);
  EXPECT_GE(evicted, kPool / 2) << "others find room while the get is at work";
  EXPECT_GT(rails_.calls, 1u);
  const auto hits =
      static_cast<size_t>(std::ranges::count_if(ok, [](uint8_t o) { return o != 0; }));
  EXPECT_GE(hits, pages / 3);
  EXPECT_LT(hits, pages) << "what was evicted before its turn";

  rails_.calls = 0;
  size_t here = 0;
  for (size_t i = 0; i < 8; ++i) here += pool_->Contains(KeyOf(i));
  const std::vector<uint8_t> few = Get(8);
  EXPECT_EQ(here,
            static_cast<size_t>(std::ranges::count_if(few, [](uint8_t o) { return o != 0; })));
  EXPECT_LE(rails_.calls, 1u) << "one piece";
}

}  // namespace
}  // namespace peercache
