#include "pool/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/size.h"
#include "pool/pool_impl.h"

namespace peercache {

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pool::~Pool() = default;

Result<Reservation> Pool::Reserve(size_t length) {
  if (length == 0 || length > impl_->max_page_bytes)
    return InvalidArgument(
        fmt::format("page of {} bytes is not between 1 and {}; use a smaller page or a larger pool",
                    length, impl_->max_page_bytes));
  Slot* slot;
  {
    std::lock_guard lock(impl_->mutex);
    slot = impl_->Allocate(length);
    if (slot == nullptr) ++impl_->reserve_failures;
  }
  if (slot == nullptr)
    return ResourceExhausted(fmt::format(
        "no free slot for a page of {} in the pool of {}; evict pages or choose a larger pool",
        FormatSize(length), FormatSize(impl_->bytes)));
  return Reserved(slot);
}

void Pool::ReserveMany(std::span<const size_t> lengths, std::span<Reservation> reservations) {
  impl_->ForBatches(lengths.size(), [&](size_t i) {
    if (lengths[i] == 0 || lengths[i] > impl_->max_page_bytes) return;
    reservations[i].slot_ = impl_->Allocate(lengths[i]);
  });
  for (Reservation& reservation : reservations)
    if (reservation.slot_ != nullptr) reservation = Reserved(reservation.slot_);
}

// Outside of the mutex: the slot is ours, and the first touch of its memory may take long.
Reservation Pool::Reserved(Slot* slot) {
  Impl::ClearHeader(impl_->HeaderOf(*slot));
  Reservation reservation;
  reservation.pool_ = this;
  reservation.slot_ = slot;
  reservation.generation_ = slot->generation;
  reservation.payload_ = impl_->PayloadOf(*slot);
  return reservation;
}

void Pool::Abort(Slot* slot) {
  std::lock_guard lock(impl_->mutex);
  impl_->table.SetState(slot, SlotState::kFree);
}

PagePin Pool::Commit(Reservation reservation, const Key& key, uint64_t tag, uint64_t checksum,
                     bool* duplicate, PageKind kind) {
  bool known = false;
  PagePin pin;
  if (reservation) {
    std::lock_guard lock(impl_->mutex);
    reservation.pool_ = nullptr;  // from here on there is nothing to abort
    pin = impl_->Commit(reservation.slot_, key, tag, checksum, &known, kind);
  }
  if (duplicate != nullptr) *duplicate = known;
  return pin;
}

void Pool::CommitMany(std::span<Reservation> reservations, std::span<const Key> keys, uint64_t tag,
                      std::span<const uint64_t> checksums, std::span<PagePin> pins,
                      TenantNumber tenant) {
  impl_->ForBatches(reservations.size(), [&](size_t i) {
    if (!reservations[i]) return;
    bool known = false;
    reservations[i].pool_ = nullptr;
    pins[i] = impl_->Commit(reservations[i].slot_, keys[i], tag, checksums[i], &known,
                            PageKind::kOwn, tenant);
  });
}

void Pool::Adopt(PagePin* pin, uint64_t tag, TenantNumber tenant) {
  std::lock_guard lock(impl_->mutex);
  impl_->Adopt(pin->slot_, tag, tenant);
  pin->replica_ = false;
}

void Pool::SetPresent(TenantNumber tenant, bool present) {
  std::lock_guard lock(impl_->mutex);
  impl_->shares.SetPresent(tenant, present);
}

bool Pool::Spared(TenantNumber tenant) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->shares.Spared(tenant);
}

uint64_t Pool::BytesOf(TenantNumber tenant) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->shares.BytesOf(tenant);
}

void Pool::Warm(const PagePin& pin, uint8_t heat) {
  std::lock_guard lock(impl_->mutex);
  pin.slot_->heat = std::max<uint8_t>(pin.slot_->heat, std::min(heat, kMostHeat)) & kMostHeat;
}

std::vector<uint8_t> Pool::HeatToReplaceNext(size_t class_of_length, size_t most) {
  std::vector<uint8_t> heats;
  if (!impl_->HasClassOf(class_of_length)) return heats;
  heats.reserve(most);
  std::vector<const Slot*> next;
  next.reserve(most);
  std::lock_guard lock(impl_->mutex);
  EvictionOrder& order = *impl_->orders[SizeClassOf(class_of_length)];
  (void)order.Next();  // brings the pages that go soon to where Peek looks
  order.Peek(most, &next);
  for (const Slot* slot : next)
    heats.push_back(slot->replica ? 0 : static_cast<uint8_t>(impl_->HeatOf(*slot) + 1));
  return heats;
}

PagePin Pool::Find(const Key& key) {
  std::lock_guard lock(impl_->mutex);
  return impl_->UseAndPin(impl_->index.Find(key));
}

void Pool::FindMany(std::span<const Key> keys, std::span<PagePin> pins) {
  // From the last key to the first: a later page of a prompt is worth nothing without the earlier
  // ones, so it should count as used before them, and go before them.
  for (size_t end = std::min(keys.size(), pins.size()); end > 0;) {
    const size_t start = end - std::min(end, Impl::kBatch);
    std::array<size_t, Impl::kBatch> hashes;
    for (size_t i = start; i < end; ++i) hashes[i - start] = impl_->index.HashOf(keys[i]);
    std::lock_guard lock(impl_->mutex);
    for (size_t i = start; i < end; ++i) impl_->index.Prefetch(hashes[i - start]);
    while (end > start) {
      --end;
      pins[end] = impl_->UseAndPin(impl_->index.Find(keys[end], hashes[end - start]));
    }
  }
}

bool Pool::Contains(const Key& key) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->index.Find(key) != nullptr;
}

void Pool::ContainsMany(std::span<const Key> keys, std::span<uint8_t> there) const {
  for (size_t start = 0; start < keys.size(); start += Impl::kBatch) {
    const auto batch = keys.subspan(start, std::min(Impl::kBatch, keys.size() - start));
    std::array<size_t, Impl::kBatch> hashes;
    for (size_t i = 0; i < batch.size(); ++i) hashes[i] = impl_->index.HashOf(batch[i]);
    std::lock_guard lock(impl_->mutex);
    for (size_t i = 0; i < batch.size(); ++i) impl_->index.Prefetch(hashes[i]);
    for (size_t i = 0; i < batch.size(); ++i)
      if (impl_->index.Find(batch[i], hashes[i]) != nullptr) there[start + i] = 1;
  }
}

PagePin Pool::FindAt(uint64_t offset, uint64_t generation, const Key& key, TimePoint now) {
  std::lock_guard lock(impl_->mutex);
  return impl_->FindAt(offset, generation, key, now);
}

void Pool::FindManyAt(std::span<const PageAt> pages, std::span<PagePin> pins, TimePoint now) {
  impl_->ForBatches(pages.size(), [&](size_t i) {
    pins[i] = impl_->FindAt(pages[i].offset, pages[i].generation, pages[i].key, now);
  });
}

void Pool::Told(uint64_t offset, uint64_t generation, TimePoint now) {
  std::lock_guard lock(impl_->mutex);
  if (Slot* slot = impl_->ReadyAt(offset, generation); slot != nullptr) slot->told.Raise(now);
}

PagePin Pool::HoldAt(uint64_t offset, uint64_t generation) {
  std::lock_guard lock(impl_->mutex);
  Slot* slot = impl_->ReadyAt(offset, generation);
  return slot != nullptr ? impl_->Pin(slot) : PagePin();
}

bool Pool::AddPublishedTo(uint64_t offset, uint64_t generation, uint16_t peer) {
  std::lock_guard lock(impl_->mutex);
  return impl_->AddPublishedTo(offset, generation, peer);
}

void Pool::AddPublishedTo(std::span<const PageAt> pages, uint16_t peer) {
  impl_->ForBatches(pages.size(), [&](size_t i) {
    impl_->AddPublishedTo(pages[i].offset, pages[i].generation, peer);
  });
}

bool Pool::RemovePublishedTo(uint64_t offset, uint64_t generation, uint16_t peer,
                             uint32_t own_pins) {
  std::lock_guard lock(impl_->mutex);
  Slot* slot = impl_->ReadyAt(offset, generation);
  // model: keep_note_in_flight
  if (slot == nullptr || slot->pins.load(std::memory_order_acquire) > own_pins) return false;
  slot->published_to.Remove(peer);
  return true;
}

size_t Pool::FreeBytes(size_t class_of_length) const {
  if (!impl_->HasClassOf(class_of_length)) return 0;
  std::lock_guard lock(impl_->mutex);
  return impl_->table.FreeBytes(SizeClassOf(class_of_length));
}

PoolUse Pool::use() const {
  PoolUse use;
  use.capacity_bytes = impl_->bytes;
  std::lock_guard lock(impl_->mutex);
  use.usable_bytes = impl_->table.usable_bytes();
  for (SizeClass c = 0; c < impl_->taken_bytes.size(); ++c) {
    if (impl_->taken_bytes[c] == 0 && !impl_->table.HasSpans(c)) continue;
    use.sizes.push_back({PayloadBytes(c), SlotBytes(c), impl_->taken_bytes[c],
                         impl_->table.FreeSlotBytes(c), impl_->table.QuarantinedBytes(c)});
  }
  return use;
}

TimePoint Pool::NextReuse() const {
  std::lock_guard lock(impl_->mutex);
  return std::min(impl_->quarantine.next(), impl_->rests_until.value_or(TimePoint::max()));
}

void Pool::ForEachReady(const std::function<void(const PageInfo&)>& fn) const {
  std::vector<PageInfo> pages;
  for (uint64_t at = 0; NextReady(&at, &pages);)
    for (const PageInfo& page : pages) fn(page);
}

bool Pool::NextReady(uint64_t* at, std::vector<PageInfo>* pages) const {
  pages->clear();
  for (; pages->empty() && *at < impl_->table.chunk_count(); ++*at) {
    std::lock_guard lock(impl_->mutex);
    const Span* span = impl_->SpanFrom(*at);
    for (uint32_t i = 0; span != nullptr && i < span->slot_count; ++i)
      if (span->slots[i].state == SlotState::kReady)
        pages->push_back(impl_->InfoOf(span->slots[i]));
  }
  return !pages->empty();
}

size_t Pool::max_page_bytes() const { return impl_->max_page_bytes; }
const Adoption& Pool::adoption() const { return impl_->adoption; }
PoolFile* Pool::file() const { return impl_->file.get(); }
const MappedRegion& Pool::memory() const { return impl_->memory; }
std::byte* Pool::base() const { return impl_->memory.data(); }
size_t Pool::size() const { return impl_->bytes; }
std::span<std::byte> Pool::beside() const { return impl_->memory.bytes().subspan(impl_->bytes); }
int Pool::fd() const { return impl_->memory.fd(); }

PoolStats Pool::stats() const {
  std::lock_guard lock(impl_->mutex);
  const SlotTable& table = impl_->table;
  PoolStats stats;
  stats.capacity_bytes = impl_->bytes;
  for (SlotState state : {SlotState::kWriting, SlotState::kReady, SlotState::kWithdrawing})
    stats.used_bytes += table.BytesIn(state);
  stats.quarantined_bytes = table.BytesIn(SlotState::kQuarantined);
  stats.free_bytes = table.BytesIn(SlotState::kFree) + table.unassigned_bytes();
  stats.payload_bytes = impl_->payload_bytes;
  stats.pages = impl_->index.size();
  stats.evictions = impl_->evictions;
  stats.evictions_resize = impl_->evictions_resize;
  stats.evictions_replica = impl_->evictions_replica;
  stats.cleared = impl_->cleared;
  stats.replicas = impl_->replicas;
  stats.replica_bytes = impl_->replica_bytes;
  stats.slots = {table.SlotsIn(SlotState::kFree), table.SlotsIn(SlotState::kWriting),
                 table.SlotsIn(SlotState::kReady), table.SlotsIn(SlotState::kWithdrawing),
                 table.SlotsIn(SlotState::kQuarantined)};
  stats.reserve_failures = impl_->reserve_failures;
  stats.duplicate_commits = impl_->duplicate_commits;
  stats.eviction = impl_->policy;
  stats.huge = impl_->memory.page_size() > SmallPageSize();
  return stats;
}

}  // namespace peercache
