#include "node/disk/loader.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/thread.h"
#include "disk/aligned.h"

namespace peercache {

// One page on its way. The drive's share of it ends when a late read has landed.
struct Loader::Loading {
  Reservation slot;
  disk::AlignedBuffer bounce;  // for a drive that wants memory aligned more strictly than slots are
  disk::DiskRead read;
  std::shared_ptr<Loading> of_drive;

  static void Landed(disk::DiskRead* read) {
    const auto last = std::move(static_cast<Loading*>(read->context)->of_drive);
  }
};

Loader::Loader(disk::DiskTier* tier, Pool* pool, Room* room, Duration patience)
    : tier_(tier), pool_(pool), room_(room), patience_(patience) {}

Status Loader::Start() {
  auto thread = StartThread([this] { Run(); });
  if (!thread.ok()) return thread.status();
  thread_ = std::move(*thread);
  return {};
}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Loader::Load(std::span<const Key> keys, std::span<PagePin> pins, TimePoint deadline,
                  TenantNumber tenant) {
  Bring(keys, std::vector<TenantNumber>(keys.size(), tenant), pins, deadline);
}

void Loader::Bring(std::span<const Key> keys, std::span<const TenantNumber> tenants,
                   std::span<PagePin> pins, TimePoint deadline) {
  std::vector<Key> asked;
  std::vector<size_t> which;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (pins[i]) continue;
    asked.push_back(keys[i]);
    which.push_back(i);
  }
  std::vector<disk::DiskPage> found(asked.size());
  tier_->Find(asked, found);
  for (size_t i = 0; i < asked.size(); ++i) found[i].owner = tenants[which[i]];
  for (size_t at = 0; at < asked.size() && Clock::now() < deadline; at += kBatch) {
    const size_t count = std::min(kBatch, asked.size() - at);
    std::vector<PagePin> brought(count);
    LoadBatch(std::span(asked).subspan(at, count), std::span(found).subspan(at, count), brought,
              deadline);
    for (size_t i = 0; i < count; ++i) pins[which[at + i]] = std::move(brought[i]);
  }
}

void Loader::LoadBatch(std::span<const Key> keys, std::span<const disk::DiskPage> found,
                       std::span<PagePin> pins, TimePoint deadline) {
  std::vector<size_t> lengths(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) lengths[i] = found[i].length;
  std::vector<Reservation> slots(keys.size());
  room_->ReserveFree(lengths, slots, Room::For::kLoad);
  std::vector<std::shared_ptr<Loading>> loadings(keys.size());
  std::vector<disk::DiskRead*> reads;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (lengths[i] == 0) continue;
    if (!slots[i]) {
      auto slot = room_->Reserve(lengths[i], deadline, found[i].owner, Room::For::kLoad);
      if (!slot.ok()) continue;
      slots[i] = std::move(*slot);
    }
    auto loading = std::make_shared<Loading>();
    loading->slot = std::move(slots[i]);
    loading->read.key = keys[i];
    loading->read.memory = loading->slot.payload();
    if (tier_->memory_alignment() > kPageAlignment) {
      loading->bounce = disk::AlignedBuffer(lengths[i]);
      if (!loading->bounce) continue;  // no memory
      loading->read.memory = loading->bounce.bytes();
    }
    loading->read.landed = Loading::Landed;
    loading->read.context = loading.get();
    loading->of_drive = loading;
    reads.push_back(&loading->read);
    loadings[i] = std::move(loading);
  }
  if (reads.empty()) return;
  (void)tier_->Read(reads, deadline);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (loadings[i] == nullptr || loadings[i]->read.outcome == disk::ReadOutcome::kLate) continue;
    loadings[i]->of_drive.reset();
    if (loadings[i]->read.outcome == disk::ReadOutcome::kHit)
      pins[i] = PutIntoService(loadings[i].get(), found[i].owner);
  }
}

PagePin Loader::PutIntoService(Loading* loading, TenantNumber tenant) {
  const disk::DiskPage& page = loading->read.page;
  if (loading->slot.payload().size() != page.length) return {};  // another page of this key
  if (loading->bounce)
    std::memcpy(loading->slot.payload().data(), loading->bounce.data(), page.length);
  PagePin pin;
  {
    const std::shared_lock lock(committing_);
    if (!tier_->Contains(page.key, page.sequence)) return {};
    const uint64_t generation = loading->slot.generation();
    pool_->CommitMany(std::span(&loading->slot, 1), std::span(&page.key, 1), page.tag,
                      std::span(&page.checksum, 1), std::span(&pin, 1), tenant);
    if (pin.header().generation != generation) return pin;  // it came by another way
  }
  loaded_pages_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  if (loaded_.size() < kMostLoaded)
    loaded_.push_back({pin.offset(), pin.header().generation, page.key});
  return pin;
}

std::vector<PageAt> Loader::TakeLoaded() {
  std::lock_guard lock(mutex_);
  return std::exchange(loaded_, {});
}

void Loader::Want(std::span<const Key> keys, std::optional<TenantNumber> tenant,
                  std::span<uint8_t> coming) {
  std::vector<disk::DiskPage> found(keys.size());
  tier_->Find(keys, found);
  bool more = false;
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (found[i].length == 0) continue;
      if (!coming.empty()) coming[i] = 1;
      if (wanted_bytes_ >= kMostWanted || !wanted_.emplace(keys[i], found[i].length).second)
        continue;
      wanted_bytes_ += found[i].length;
      queue_.push_back({keys[i], tenant.value_or(found[i].owner)});
      more = true;
    }
  }
  if (more) wake_.notify_one();
}

void Loader::Run() {
  std::vector<Key> keys;
  std::vector<TenantNumber> tenants;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    keys.clear();
    tenants.clear();
    for (; !queue_.empty() && keys.size() < kBatch; queue_.pop_front()) {
      keys.push_back(queue_.front().key);
      tenants.push_back(queue_.front().tenant);
    }
    lock.unlock();
    std::vector<PagePin> pins(keys.size());
    pool_->FindMany(keys, pins);
    Bring(keys, tenants, pins, Clock::now() + patience_);
    pins.clear();
    lock.lock();
    for (const Key& key : keys) {
      const auto it = wanted_.find(key);
      wanted_bytes_ -= it->second;
      wanted_.erase(it);
    }
  }
}

}  // namespace peercache
