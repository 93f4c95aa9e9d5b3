// How pages go and slots come back: victims, clears, quarantine.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "pool/pool_impl.h"
#include "pool/victims.h"

namespace peercache {
namespace {

constexpr size_t kVictimBatch =
    256;  // pages per acquisition of the mutex: tens of microseconds at most

}  // namespace

std::vector<Victim> Pool::TakeVictims(size_t bytes, size_t class_of_length, bool spare) {
  std::vector<Victim> victims;
  if (!impl_->HasClassOf(class_of_length)) return victims;
  const SizeClass size_class = SizeClassOf(class_of_length);
  const auto take = [&](Slot* slot) {
    impl_->evictions_resize += slot->span->size_class != size_class && !slot->replica;
    victims.push_back(impl_->TakeOut(slot, true));
  };
  VictimSearch search;
  while (bytes > 0) {
    std::lock_guard lock(impl_->mutex);  // per batch: readers get in between
    if (impl_->policy != EvictionPolicy::kLru) impl_->ghost.SetWindow(impl_->index.size());
    FairOrder* const order = impl_->orders[size_class].get();
    order->Spare(spare);
    const size_t gained = peercache::TakeVictims(impl_->table, impl_->shares, order, bytes,
                                                 kVictimBatch, size_class, &search, take);
    order->Spare(true);
    if (gained == 0 && !search.unfinished) break;
    bytes -= std::min(bytes, gained);
  }
  return victims;
}

std::vector<Victim> Pool::TakeReplicas(size_t bytes) {
  std::vector<Victim> victims;
  while (bytes > 0) {
    std::lock_guard lock(impl_->mutex);  // per batch: readers get in between
    for (size_t i = 0; i < kVictimBatch && bytes > 0; ++i) {
      Slot* oldest = nullptr;
      for (const auto& order : impl_->orders) {
        Slot* next = order->NextReplica();
        if (next != nullptr && (oldest == nullptr || next->last_use < oldest->last_use))
          oldest = next;
      }
      if (oldest == nullptr) return victims;
      bytes -= std::min(bytes, oldest->span->slot_bytes);
      victims.push_back(impl_->TakeOut(oldest, true));
    }
  }
  return victims;
}

std::vector<Victim> Pool::TakeTagged(TagRange tags, size_t* busy) {
  std::vector<Victim> victims;
  size_t pinned = 0;
  for (size_t chunk = 0; chunk < impl_->table.chunk_count(); ++chunk) {
    std::lock_guard lock(impl_->mutex);  // per span: readers get in between
    Span* span = impl_->SpanFrom(chunk);
    for (uint32_t i = 0; span != nullptr && i < span->slot_count; ++i) {
      Slot* slot = &span->slots[i];
      if (slot->state != SlotState::kReady) continue;
      if (!tags.Has(slot->tag) && !slot->replica) continue;
      if (slot->pinned()) {
        ++pinned;
      } else {
        // A reader on another machine may hold its location, or be told of it by a shard that has
        // not heard of the withdrawal: a READ finds no page there from now on.
        Impl::ClearHeader(impl_->HeaderOf(*slot));
        victims.push_back(impl_->TakeOut(slot, false));
        ++impl_->cleared;
      }
    }
  }
  if (busy != nullptr) *busy = pinned;
  return victims;
}

void Pool::Quarantine(const Victim& victim, TimePoint reuse_at) {  // model: Quarantine
  std::lock_guard lock(impl_->mutex);
  Slot* slot = impl_->table.At(victim.offset);
  if (slot == nullptr || slot->generation != victim.generation ||
      slot->state != SlotState::kWithdrawing) {
    spdlog::error("pool: page {} at {} is not being withdrawn; its quarantine is ignored",
                  victim.key.ShortHex(), victim.offset);
    return;
  }
  impl_->table.SetState(slot, SlotState::kQuarantined);
  impl_->quarantine.Add(slot, reuse_at);
}

size_t Pool::Reclaim(TimePoint now) {  // model: Reuse
  size_t freed = impl_->EndRest(now);
  while (size_t batch = impl_->ReclaimSome(now)) freed += batch;
  return freed;
}

}  // namespace peercache
