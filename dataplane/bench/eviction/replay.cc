#include "bench/eviction/replay.h"

#include <algorithm>
#include <cstring>
#include <queue>
#include <vector>

#include "base/clock.h"
#include "base/splitmix.h"
#include "pool/pool.h"
#include "pool/size_class.h"

namespace peercache::bench {
namespace {

constexpr size_t kPageBytes = 4096;  // the smallest slots: the whole payload of class 0
// Room is made in steps of this share of the pool, as upkeep does.
constexpr size_t kStepsPerPool = 128;

double Since(TimePoint start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void MakeRoom(Pool& pool) {
  const TimePoint now = Clock::now();
  for (const Victim& victim : pool.TakeVictims(pool.size() / kStepsPerPool, kPageBytes))
    pool.Quarantine(victim, now);
  pool.Reclaim(now + milliseconds(1));  // no reader holds a record here
}

Status Set(Pool& pool, const Key& key) {
  auto reservation = pool.Reserve(kPageBytes);
  if (!reservation.ok()) {
    MakeRoom(pool);
    reservation = pool.Reserve(kPageBytes);
  }
  if (!reservation.ok()) return reservation.status();
  pool.Commit(std::move(reservation).value(), key, 0, 0, nullptr);
  return {};
}

Result<std::unique_ptr<Pool>> MakePool(size_t pages, EvictionPolicy policy) {
  PoolOptions options;
  options.bytes = pages * SlotBytes(SizeClassOf(kPageBytes));
  options.huge_pages = HugePages::kOff;
  options.max_page_bytes = kPageBytes;
  options.eviction = policy;
  return Pool::Create(options);
}

}  // namespace

Result<ReplayResult> Replay(const Trace& trace, double share, EvictionPolicy policy) {
  const double wanted = std::max(share * static_cast<double>(trace.footprint), 1.0);
  auto pool = MakePool(static_cast<size_t>(wanted), policy);
  if (!pool.ok()) return pool.status();
  ReplayResult result;
  result.capacity = (*pool)->FreeBytes(kPageBytes) / SlotBytes(SizeClassOf(kPageBytes));
  std::vector<Key> keys, missing;
  std::vector<PagePin> pins;
  const TimePoint start = Clock::now();
  for (const Request& request : trace.requests) {
    keys.clear();
    ForEachPage(request.prompt, [&](uint32_t page) { keys.push_back(NumberedKey(page)); });
    pins.resize(keys.size());
    (*pool)->FindMany(keys, pins);
    const auto found = [](const PagePin& pin) { return static_cast<bool>(pin); };
    result.pages += keys.size();
    result.page_hits += static_cast<uint64_t>(std::count_if(pins.begin(), pins.end(), found));
    result.prefix_hits +=
        static_cast<uint64_t>(std::find_if_not(pins.begin(), pins.end(), found) - pins.begin());
    missing.clear();
    for (size_t i = 0; i < keys.size(); ++i)
      if (!pins[i]) missing.push_back(keys[i]);
    for (PagePin& pin : pins) pin.Release();
    ForEachPage({request.answer}, [&](uint32_t page) { missing.push_back(NumberedKey(page)); });
    for (const Key& key : missing)
      if (Status status = Set(**pool, key); !status.ok()) return status;
  }
  result.seconds = Since(start);
  result.evictions = (*pool)->stats().evictions;
  return result;
}

ReplayResult ReplayBest(const Trace& trace, size_t capacity) {
  constexpr uint32_t kNever = UINT32_MAX;
  struct Access {
    uint32_t page;
    bool asked;
    uint32_t next = kNever;  // index of the next access that asks for the page
  };
  std::vector<Access> accesses;
  for (const Request& request : trace.requests) {
    ForEachPage(request.prompt, [&](uint32_t page) { accesses.push_back({page, true}); });
    ForEachPage({request.answer}, [&](uint32_t page) { accesses.push_back({page, false}); });
  }
  std::vector<uint32_t> next(trace.page_numbers, kNever);
  for (size_t i = accesses.size(); i-- > 0;) {
    accesses[i].next = next[accesses[i].page];
    if (accesses[i].asked) next[accesses[i].page] = static_cast<uint32_t>(i);
  }

  ReplayResult result;
  result.capacity = capacity;
  const TimePoint start = Clock::now();
  // kept[page]: when it is asked for next, 0: not kept. The heap has outdated entries too.
  std::vector<uint32_t> kept(trace.page_numbers, 0);
  std::priority_queue<std::pair<uint32_t, uint32_t>> furthest;
  size_t count = 0;
  for (const Access& access : accesses) {
    const bool hit = kept[access.page] != 0;
    result.pages += access.asked;
    result.page_hits += access.asked && hit;
    count -= hit;
    kept[access.page] = 0;
    if (access.next == kNever) continue;  // never asked for again: not worth a slot
    kept[access.page] = access.next;
    furthest.emplace(access.next, access.page);
    for (++count; count > capacity; furthest.pop()) {
      const auto [when, page] = furthest.top();
      if (kept[page] != when) continue;
      kept[page] = 0;
      --count;
      ++result.evictions;
    }
  }
  result.prefix_hits = result.page_hits;
  result.seconds = Since(start);
  return result;
}

}  // namespace peercache::bench
