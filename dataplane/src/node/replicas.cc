#include "node/replicas.h"

#include <algorithm>

namespace peercache {
namespace {

// Less would not even hold the batches that a node's engines have in flight.
constexpr size_t kSmallestShare = size_t{64} << 20;
constexpr size_t kAlign = size_t{2} << 20;
// How many fetches back "lately" is.
constexpr size_t kFetchesRemembered = 64 << 10;

}  // namespace

Replicas::Replicas(std::unique_ptr<Pool> pool)
    : pool_(std::move(pool)), fetched_(kFetchesRemembered) {}

size_t Replicas::ShareOf(size_t pool_bytes, uint32_t percent) {
  const size_t share = pool_bytes / 100 * percent / kAlign * kAlign;
  return share < kSmallestShare ? 0 : share;
}

void Replicas::Find(std::span<const Key> keys, std::span<const size_t> which,
                    std::span<PagePin> pins) {
  if (pool_ == nullptr) return;
  for (size_t i = 0; i < which.size(); ++i) pins[i] = pool_->Find(keys[which[i]]);
}

void Replicas::Observe(size_t shared, size_t alone) {
  if (shared + alone == 0) return;
  const auto now = static_cast<uint32_t>(100 * shared / (shared + alone));
  // A lost update of another thread changes nothing that matters.
  const uint32_t before = sharing_.load(std::memory_order_relaxed);
  sharing_.store((7 * before + now + 7) / 8, std::memory_order_relaxed);
}

Result<Reservation> Replicas::Reserve(size_t length) {
  auto reservation = pool_->Reserve(length);
  for (int attempt = 0; attempt < 2 && !reservation.ok(); ++attempt) {
    if (reservation.status().code() != Code::kResourceExhausted) break;
    // Nobody outside of this process knows of the slots, so they need no rest; pins are respected.
    const TimePoint now = Clock::now();
    for (const Victim& victim : pool_->TakeVictims(8 * length, length))
      pool_->Quarantine(victim, now);
    pool_->Reclaim(now + milliseconds(1));
    reservation = pool_->Reserve(length);
  }
  return reservation;
}

void Replicas::Keep(std::span<const Key> keys, std::span<const size_t> which,
                    std::span<const uint8_t> ok, const Destinations& from, uint64_t epoch) {
  if (pool_ == nullptr) return;
  std::vector<size_t> kept;
  {
    const bool all = Sharing();
    std::lock_guard lock(mutex_);
    for (const size_t page : which) {
      if (!ok[page]) continue;
      const bool again = fetched_.Take(keys[page]);
      if (all || again) kept.push_back(page);
      if (!again) fetched_.Add(keys[page]);
    }
  }
  for (const size_t page : kept) {
    if (pool_->Contains(keys[page])) continue;
    auto reservation = Reserve(from.SizeOf(page));
    if (!reservation.ok()) return;  // everything is in use: these pages are not worth waiting for
    const auto segments = from.Of(page);
    const std::vector<ConstBytes> bytes(segments.begin(), segments.end());
    if (!GuardedGather(reservation->payload(), bytes)) continue;
    if (epoch != this->epoch()) return;
    bool duplicate = false;
    (void)pool_->Commit(std::move(*reservation), keys[page], 0, 0, &duplicate);
  }
}

void Replicas::Clear() {
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  if (pool_ == nullptr) return;
  size_t busy = 0;
  const TimePoint now = Clock::now();
  for (const Victim& victim : pool_->TakeTagged(0, &busy)) pool_->Quarantine(victim, now);
  pool_->Reclaim(now + milliseconds(1));
}

}  // namespace peercache
