// What a pool is made of, under one mutex: pool.cc, pool_start.cc and pool_room.cc are its callers.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/device_order.h"
#include "pool/adopted.h"
#include "pool/fair_order.h"
#include "pool/ghost.h"
#include "pool/heat.h"
#include "pool/key_index.h"
#include "pool/pool.h"
#include "pool/pool_file.h"
#include "pool/resting_slots.h"
#include "pool/shares.h"
#include "pool/slot_table.h"

namespace peercache {

struct Pool::Impl {
  // Pages per acquisition of the mutex: tens of microseconds at most.
  static constexpr size_t kBatch = 256;
  static constexpr size_t kReclaimBatch = 1024;  // slots, likewise
  // Page size that the index is laid out for; smaller pages make it grow.
  static constexpr size_t kTypicalPage = size_t{64} << 10;
  // Generations that a process may use before it says so to the next one.
  static constexpr uint64_t kGenerations = uint64_t{1} << 20;

  Impl(MappedRegion region, std::unique_ptr<PoolFile> of, StateTable states, size_t slots,
       size_t max_page, EvictionPolicy eviction)
      : file(std::move(of)),
        memory(std::move(region)),
        bytes(slots),
        max_page_bytes(max_page),
        policy(eviction),
        table(bytes, SlotTable::ChunkBytes(bytes), SizeClassOf(max_page), states),
        index(bytes / kTypicalPage),
        ghost(1),
        taken_bytes(SizeClassOf(max_page) + 1) {
    for (SizeClass c = 0; c <= SizeClassOf(max_page); ++c)
      orders.push_back(std::make_unique<FairOrder>(
          &shares, [this] { return MakeEvictionOrder(policy, &ghost); }));
  }

  // Whoever reads the header without the mutex (a remote READ) trusts the rest only when generation
  // is what the record says, so it is cleared first and set last.
  static void ClearHeader(SlotHeader* header) {
    std::atomic_ref(header->generation).store(0, std::memory_order_release);
    OrderForDevices();  // before the first byte of the next page
  }
  static void WriteHeader(SlotHeader* header, const Slot& slot) {
    header->magic = SlotHeader::kMagic;
    header->length = slot.length;
    header->key = slot.key;
    header->checksum = slot.checksum;
    header->tag = slot.tag;
    std::atomic_ref(header->generation).store(slot.generation, std::memory_order_release);
  }

  SlotHeader* HeaderOf(const Slot& slot) const {
    return reinterpret_cast<SlotHeader*>(memory.data() + slot.offset());
  }
  std::span<std::byte> PayloadOf(const Slot& slot) const {
    return {memory.data() + slot.offset() + sizeof(SlotHeader), slot.length};
  }
  bool HasClassOf(size_t length) const {
    return length != 0 && length <= PayloadBytes(static_cast<SizeClass>(orders.size()) - 1);
  }
  FairOrder& OrderOf(const Slot& slot) { return *orders[slot.span->size_class]; }

  // Under the mutex:
  uint8_t HeatOf(const Slot& slot) const {
    return HeatNow(slot.heat, slot.last_use, uses, index.size());
  }
  PageInfo InfoOf(const Slot& slot) const {
    return {slot.key,          slot.offset(), slot.generation, slot.checksum, slot.length,
            slot.published_to, slot.tag,      slot.last_use,   HeatOf(slot),  slot.replica != 0};
  }
  void Stamp(Slot* slot) {
    slot->heat = HeatOf(*slot) & kMostHeat;
    slot->last_use = ++uses;
    // Replicas keep no chunk from becoming another size's.
    if (!slot->replica) slot->span->newest_use = uses;
  }
  // The only place where a page is pinned: the slot must be ready.
  PagePin Pin(Slot* slot) {
    slot->pins.fetch_add(1, std::memory_order_relaxed);
    PagePin pin;
    pin.slot_ = slot;
    pin.offset_ = slot->offset();
    pin.replica_ = slot->replica;
    pin.header_ = HeaderOf(*slot);
    pin.payload_ = PayloadOf(*slot);
    return pin;
  }
  PagePin UseAndPin(Slot* slot) {
    if (slot == nullptr) return {};
    Stamp(slot);
    if (slot->heat < kMostHeat) ++slot->heat;
    OrderOf(*slot).Use(slot);
    return Pin(slot);
  }
  Slot* ReadyAt(uint64_t offset, uint64_t generation) const {
    Slot* slot = table.At(offset);
    const bool same =
        slot != nullptr && slot->state == SlotState::kReady && slot->generation == generation;
    return same ? slot : nullptr;
  }
  PagePin FindAt(uint64_t offset, uint64_t generation, const Key& key, TimePoint now) {
    Slot* slot = ReadyAt(offset, generation);  // model: Ask, check_slot
    if (slot == nullptr || slot->key != key) return {};
    slot->told.Raise(now);  // model: served_directly
    return UseAndPin(slot);
  }
  bool AddPublishedTo(uint64_t offset, uint64_t generation, uint16_t peer) {
    Slot* slot = ReadyAt(offset, generation);
    if (slot == nullptr) return false;
    slot->published_to.Add(peer);
    return true;
  }
  Slot* Allocate(size_t length) {
    if (rests_until) return nullptr;
    Slot* slot = table.Allocate(SizeClassOf(length));
    if (slot == nullptr) return nullptr;
    slot->generation = generations->Next();
    if (slot->generation >= generation_limit) {
      generation_limit = slot->generation + kGenerations;
      file->RaiseGenerationLimit(generation_limit);
    }
    slot->length = static_cast<uint32_t>(length);
    slot->published_to = {};
    slot->told = {};
    slot->replica = 0;
    slot->tenant = 0;
    slot->heat = 0;
    return slot;
  }
  PagePin Commit(Slot* slot, const Key& key, uint64_t tag, uint64_t checksum, bool* duplicate,
                 PageKind kind, TenantNumber tenant = 0) {
    if (Slot* existing = index.Find(key); existing != nullptr) {
      *duplicate = true;
      ++duplicate_commits;
      table.SetState(slot, SlotState::kFree);
      if (kind == PageKind::kOwn) Adopt(existing, tag, tenant);
      return UseAndPin(existing);
    }
    slot->key = key;
    slot->replica = kind == PageKind::kReplica;
    slot->tag = tag;
    slot->checksum = checksum;
    WriteHeader(HeaderOf(*slot), *slot);
    table.SetState(slot, SlotState::kReady);
    payload_bytes += slot->length;
    slot->tenant = tenant;
    if (slot->replica) {
      CountReplica(*slot, +1);
    } else {
      shares.Add(tenant, slot->span->slot_bytes);
    }
    taken_bytes[slot->span->size_class] += slot->span->slot_bytes;
    index.Insert(slot);
    Stamp(slot);
    OrderOf(*slot).Insert(slot);
    return Pin(slot);
  }
  // Calls work for each of `count`, and takes the mutex for some of them at a time.
  template <typename Work>
  void ForBatches(size_t count, const Work& work) {
    for (size_t at = 0; at < count;) {
      std::lock_guard lock(mutex);
      for (const size_t end = std::min(count, at + kBatch); at < end; ++at) work(at);
    }
  }
  void CountReplica(const Slot& slot, int change) {
    replicas += static_cast<uint64_t>(change);
    replica_bytes += static_cast<size_t>(change) * slot.span->slot_bytes;
  }
  void Adopt(Slot* slot, uint64_t tag, TenantNumber tenant) {
    if (!slot->replica) return;
    OrderOf(*slot).Remove(slot, false);
    CountReplica(*slot, -1);
    slot->replica = 0;
    slot->tenant = tenant;
    shares.Add(tenant, slot->span->slot_bytes);
    slot->tag = tag;
    std::atomic_ref(HeaderOf(*slot)->tag).store(tag, std::memory_order_relaxed);
    if (slot->span->states != nullptr) StateTable::Set(*slot, SlotState::kReady);
    OrderOf(*slot).Insert(slot);
    Stamp(slot);
  }
  Victim TakeOut(Slot* slot, bool evicted) {
    index.Erase(slot);
    OrderOf(*slot).Remove(slot, evicted);
    table.SetState(slot, SlotState::kWithdrawing);
    payload_bytes -= slot->length;
    if (evicted) ++(slot->replica ? evictions_replica : evictions);
    if (slot->replica) {
      CountReplica(*slot, -1);
    } else {
      shares.Remove(static_cast<TenantNumber>(slot->tenant), slot->span->slot_bytes);
    }
    return {slot->key,    slot->offset(),     slot->generation,
            slot->length, slot->published_to, slot->told};
  }
  // At most kReclaimBatch slots; takes the mutex itself, not while headers come into the cache.
  size_t ReclaimSome(TimePoint now) {
    std::unique_lock lock(mutex);
    const std::vector<Slot*> due = quarantine.TakeDue(now, kReclaimBatch);
    lock.unlock();
    // A free slot may become part of one of another size, whose page is written over its header.
    for (const Slot* slot : due) ClearHeader(HeaderOf(*slot));  // model: void_first
    lock.lock();
    size_t freed = 0;
    for (Slot* slot : due) {
      freed += slot->span->slot_bytes;
      table.SetState(slot, SlotState::kFree);
    }
    return freed;
  }
  // What is free from now on because the rest of an adopted pool is over.
  size_t EndRest(TimePoint now) {
    std::lock_guard lock(mutex);
    if (!rests_until || now <= *rests_until) return 0;
    rests_until.reset();
    file->Rested();
    return table.BytesIn(SlotState::kFree) + table.unassigned_bytes();
  }
  // The span that begins at this chunk, if one does.
  Span* SpanFrom(size_t chunk) const {
    Span* span = table.SpanOf(chunk);
    return span != nullptr && span->first_chunk == chunk ? span : nullptr;
  }

  // A page of the process before, as if it had just been committed. Before anybody else is here.
  bool Keep(Slot* slot) {
    if (index.Find(slot->key) != nullptr) return false;
    index.Insert(slot);
    payload_bytes += slot->length;
    if (slot->replica) {
      CountReplica(*slot, +1);
    } else {
      shares.Add(0, slot->span->slot_bytes);
    }
    Stamp(slot);
    OrderOf(*slot).Insert(slot);
    return true;
  }

  const std::unique_ptr<PoolFile> file;  // null: a memfd
  Adoption adoption;
  std::optional<TimePoint> rests_until;  // no slot is handed out before
  const MappedRegion memory;
  const size_t bytes;  // of it, for slots
  const size_t max_page_bytes;
  const EvictionPolicy policy;
  mutable std::mutex mutex;
  SlotTable table;
  KeyIndex index;  // of all ready slots, and no others
  Ghost ghost;
  PoolShares shares;
  std::vector<std::unique_ptr<FairOrder>> orders;  // by size class, as the next
  std::vector<uint64_t> taken_bytes;
  RestingSlots quarantine;
  Sequence own_generations;
  Sequence* generations = &own_generations;  // of the whole pool: none ever repeats
  uint64_t generation_limit = UINT64_MAX;    // that the next process begins with
  uint64_t uses = 0;
  size_t payload_bytes = 0;
  uint64_t replicas = 0;
  size_t replica_bytes = 0;
  uint64_t evictions = 0, evictions_resize = 0, evictions_replica = 0, cleared = 0;
  uint64_t reserve_failures = 0, duplicate_commits = 0;
};

}  // namespace peercache
