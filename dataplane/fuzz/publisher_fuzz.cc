// The publisher, against a shard that answers what it likes.
//
// An input is a script for HostilePeer. The node publishes pages, says that it is alive, repairs,
// and withdraws the pages again. Its calls must end; a page that counts as published is noted as
// such, or its withdrawal would not reach the shard; and no slot is reused within the lease.

#include <algorithm>

#include "fuzz.h"
#include "hostile_peer.h"
#include "node/owner/publisher.h"
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

std::vector<HeldPage> SetPages(Pool* pool, const Publisher& publisher) {
  std::vector<HeldPage> pages;
  for (size_t i = 0; i < HostilePeer::kPages; ++i) {
    auto reservation = pool->Reserve(HostilePeer::kPage);
    Require(reservation.ok(), "the pool has room");
    const Key key = NodeOfHostilePeer::KeyOf(i);
    bool duplicate = false;
    PagePin pin = pool->Commit(std::move(*reservation), key, kTag, 0, &duplicate);
    Require(!duplicate, "pages of former inputs are gone");
    const Record record = publisher.RecordOf(pin);
    pages.push_back({key, record, std::move(pin)});
  }
  return pages;
}

void CheckNoted(Pool* pool, std::span<const HeldPage> pages, std::span<const uint8_t> ok,
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

void WithdrawAll(Pool* pool, Publisher* publisher, const Counters& counters, uint16_t peer) {
  size_t busy = 0;
  const auto victims = pool->TakeTagged(kTag, &busy);
  Require(busy == 0 && victims.size() == HostilePeer::kPages, "nobody holds a page any more");
  std::vector<TimePoint> reuse_at(victims.size());
  const TimePoint before = Clock::now();
  const uint64_t lost = counters.withdraw_unacknowledged;
  publisher->Withdraw(victims, reuse_at);
  const bool answered = counters.withdraw_unacknowledged == lost;
  (answered ? acknowledged : ignored).Hit();
  for (size_t i = 0; i < victims.size(); ++i) {
    Require(answered || !victims[i].published_to.Contains(peer) || reuse_at[i] >= before + kLease,
            "no slot is reused within the lease when the shard has not answered");
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
  PoolHoldings holdings(&pool);
  Publisher publisher({1, kLease, HostilePeer::kStall, HostilePeer::kStall}, &node.shard, &holdings,
                      &node.peers, &views, &node.counters);
  auto pages = SetPages(&pool, publisher);
  std::vector<uint8_t> ok(pages.size());
  publisher.Publish(pages, ok, Clock::now() + HostilePeer::kStall);
  CheckNoted(&pool, pages, ok, node.peers.All().front()->index());
  pages.clear();
  publisher.KeepAlive();
  bool right = publisher.Repair(*node.view);
  while (publisher.repairing()) right = publisher.Repair(*node.view);
  (right ? repaired : unrepaired).Hit();
  WithdrawAll(&pool, &publisher, node.counters, node.peers.All().front()->index());
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
