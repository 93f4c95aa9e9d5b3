#include "node/read/replicas.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"

namespace peercache {
namespace {

constexpr size_t kAlign = size_t{2} << 20;
// How many fetches back "lately" is.
constexpr size_t kFetchesRemembered = 64 << 10;
// So much of their share changes hands, so often: whoever reads more pages in turn than the share
// holds would have all of them promoted and dropped before they are read again.
constexpr size_t kSurplusShare = 4;
constexpr Duration kSurplusPause = milliseconds(1000);

// False: the engine's memory is gone, or the engine has taken it back.
bool CopyIn(const Destinations& from, size_t page, Bytes to) {
  const auto segments = from.Of(page);
  const std::vector<ConstBytes> bytes(segments.begin(), segments.end());
  return GuardedGather(to, bytes) && !from.revoked();
}

}  // namespace

Replicas::Replicas(std::unique_ptr<Pool> pool, Promotion promotion)
    : pool_(std::move(pool)), promotion_(promotion), fetched_(kFetchesRemembered) {}

size_t Replicas::ShareOf(size_t pool_bytes, uint32_t percent) {
  const size_t share = pool_bytes / 100 * percent / kAlign * kAlign;
  return share < kSmallestShare ? 0 : share;
}

void Replicas::Find(std::span<const Key> keys, std::span<PagePin> pins) {
  if (pool_ != nullptr) pool_->FindMany(keys, pins);
}

void Replicas::ContainsMany(std::span<const Key> keys, std::span<uint8_t> there) const {
  if (pool_ != nullptr) pool_->ContainsMany(keys, there);
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
                    std::span<const uint8_t> ok, const Destinations& from, uint64_t epoch,
                    std::span<const uint64_t> checksums) {
  if (pool_ == nullptr && promotion_.pool == nullptr) return;
  std::vector<size_t> often, shared;
  {
    const bool all = Sharing();
    std::lock_guard lock(mutex_);
    for (const size_t page : which) {
      if (!ok[page]) continue;
      const bool again = fetched_.Take(keys[page]);
      if (again) often.push_back(page);
      if (all && !again) shared.push_back(page);
      if (!again) fetched_.Add(keys[page]);
    }
  }
  for (const size_t page : often)
    if (!Promote(keys[page], from, page, epoch, checksums[page])) shared.push_back(page);
  if (pool_ != nullptr)
    for (const size_t page : shared) KeepPrivate(keys[page], from, page, epoch);
  kept_.fetch_add(1, std::memory_order_release);
}

void Replicas::KeepPrivate(const Key& key, const Destinations& from, size_t page, uint64_t epoch) {
  if (pool_->Contains(key)) return;
  auto reservation = Reserve(from.SizeOf(page));
  if (!reservation.ok()) return;  // everything is in use: this page is not worth waiting for
  if (!CopyIn(from, page, reservation->payload())) return;
  const std::shared_lock lock(committing_);
  if (epoch != this->epoch()) return;
  bool duplicate = false;
  (void)pool_->Commit(std::move(*reservation), key, 0, 0, &duplicate, PageKind::kReplica);
}

bool Replicas::Promote(const Key& key, const Destinations& from, size_t page, uint64_t epoch,
                       uint64_t checksum) {
  if (promotion_.pool == nullptr) return false;
  if (promotion_.pool->Contains(key)) return true;
  const size_t length = from.SizeOf(page);
  const PoolStats use = promotion_.pool->stats();
  if (use.free_bytes < promotion_.spare + length) return false;
  if (use.replica_bytes + length > promotion_.bytes) {
    refused_.fetch_add(length, std::memory_order_relaxed);
    return false;
  }
  auto reservation = promotion_.pool->Reserve(length);
  if (!reservation.ok()) return false;
  // The engine can write into its pages at any time, and others are going to trust these bytes.
  if (!CopyIn(from, page, reservation->payload()) ||
      (checksum != 0 && Checksum(reservation->payload()) != checksum)) {
    return true;  // not worth keeping at all
  }
  bool duplicate = false;
  PagePin pin;
  {
    const std::shared_lock lock(committing_);
    if (epoch != this->epoch()) return true;
    pin = promotion_.pool->Commit(std::move(*reservation), key, 0, checksum, &duplicate,
                                  PageKind::kReplica);
  }
  if (duplicate || !pin) return true;
  std::lock_guard lock(mutex_);
  promoted_.push_back(std::move(pin));
  return true;
}

std::vector<PagePin> Replicas::TakePromoted() {
  std::lock_guard lock(mutex_);
  return std::exchange(promoted_, {});
}

size_t Replicas::Surplus(TimePoint now) {
  if (now < next_surplus_) return 0;
  next_surplus_ = now + kSurplusPause;
  return std::min(refused_.exchange(0, std::memory_order_relaxed),
                  promotion_.bytes / kSurplusShare);
}

void Replicas::Clear() {
  {
    const std::unique_lock lock(committing_);
    epoch_.fetch_add(1, std::memory_order_acq_rel);
  }
  if (pool_ == nullptr) return;
  size_t busy = 0;
  const TimePoint now = Clock::now();
  for (const Victim& victim : pool_->TakeTagged(0, &busy)) pool_->Quarantine(victim, now);
  pool_->Reclaim(now + milliseconds(1));
}

}  // namespace peercache
