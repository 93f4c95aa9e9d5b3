// The publisher, against a shard that answers what it likes.
//
// An input is a script for HostilePeer. The node publishes pages, says that it is alive, repairs,
// and withdraws the pages again. Its calls must end; a page that counts as published is noted as
// such, or its withdrawal would not reach the shard; and no slot is reused within the lease.

#include <algorithm>

#include "fuzz.h"
#include "hostile_peer.h"
#include "node/publisher.h"
#include "pool/pool.h"

namespace peercache::fuzz {
namespace {

Reached published("pages published"), failed("pages not published"), repaired("repairs"),
    unrepaired("repairs incomplete"), acknowledged("withdrawals acknowledged"),
    ignored("withdrawals not acknowledged");

constexpr uint64_t kTag = 1;
constexpr milliseconds kLease{1000};

Pool& SharedPool() {
  static auto* const pool = [] {
    PoolOptions options;
    options.bytes = size_t{8} << 20;
    options.huge_pages = HugePages::kOff;
    auto made = Pool::Create(options);
    Require(made.ok(), "the pool is there");
    return std::move(*made).release();
  }();
  return *pool;
}

std::vector<PinnedPage> SetPages(Pool* pool, const Publisher& publisher) {
  std::vector<PinnedPage> pages;
  for (size_t i = 0; i < HostilePeer::kPages; ++i) {
    auto reservation = pool->Reserve(HostilePeer::kPage);
    Require(reservation.ok(), "the pool has room");
    const Key key = NodeOfHostilePeer::KeyOf(i);
    bool duplicate = false;
    PinnedPage page{key, {}, pool->Commit(std::move(*reservation), key, kTag, 0, &duplicate)};
    Require(!duplicate, "pages of former inputs are gone");
    page.record = publisher.RecordOf(page.pin);
    pages.push_back(std::move(page));
  }
  return pages;
}

void CheckNoted(Pool* pool, std::span<const PinnedPage> pages, std::span<const uint8_t> ok,
                uint16_t peer) {
  pool->ForEachReady([&](const PageInfo& info) {
    for (size_t i = 0; i < pages.size(); ++i) {
      if (pages[i].record.offset != info.offset) continue;
      Require(ok[i] <= 1, "a flag is 0 or 1");
      Require(ok[i] == 0 || info.published_to.Contains(peer), "what is published is noted");
      (ok[i] != 0 ? published : failed).Hit();
    }
  });
}

void WithdrawAll(Pool* pool, Publisher* publisher, const Counters& counters) {
  size_t busy = 0;
  const auto victims = pool->TakeTagged(kTag, &busy);
  Require(busy == 0 && victims.size() == HostilePeer::kPages, "nobody holds a page any more");
  std::vector<TimePoint> reuse_at(victims.size());
  const TimePoint before = Clock::now();
  const uint64_t lost = counters.withdraw_unacknowledged;
  publisher->Withdraw(victims, reuse_at);
  (counters.withdraw_unacknowledged == lost ? acknowledged : ignored).Hit();
  for (size_t i = 0; i < victims.size(); ++i) {
    Require(reuse_at[i] >= before + kLease, "no slot is reused within the lease");
    Require(reuse_at[i] < before + std::chrono::minutes(1), "and each some time");
    pool->Quarantine(victims[i], reuse_at[i]);
  }
  pool->Reclaim(*std::ranges::max_element(reuse_at) + kLease);
}

void Run() {
  NodeOfHostilePeer node;
  Views views;
  views.Set(node.view);
  Pool& pool = SharedPool();
  Publisher publisher({1, kLease, HostilePeer::kStall, HostilePeer::kStall}, &node.shard, &pool,
                      &node.peers, &views, &node.counters);
  auto pages = SetPages(&pool, publisher);
  std::vector<uint8_t> ok(pages.size());
  publisher.Publish(pages, ok, Clock::now() + HostilePeer::kStall);
  CheckNoted(&pool, pages, ok, node.peers.All().front()->index());
  pages.clear();
  publisher.KeepAlive();
  (publisher.Repair(node.view) ? repaired : unrepaired).Hit();
  WithdrawAll(&pool, &publisher, node.counters);
  publisher.DisownAll();
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  HostilePeer::Get().Answer({data, size});
  Run();
  return 0;
}
