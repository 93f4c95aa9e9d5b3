#include "pool/slot_table.h"

#include <algorithm>
#include <bit>

#include "base/divide.h"

namespace peercache {
namespace {

constexpr size_t kSmallestChunk = size_t{2} << 20;
constexpr size_t kLargestChunk = size_t{64} << 20;
constexpr size_t kChunksPerPool = 64;  // so that a few classes cannot starve each other
// Longest run of one span, so that one class of large pages leaves room to others.
constexpr size_t kSpansPerPool = 4;

}  // namespace

size_t SlotTable::ChunkBytes(size_t pool_bytes) {
  return std::clamp(std::bit_floor(pool_bytes / kChunksPerPool), kSmallestChunk, kLargestChunk);
}

SlotTable::SlotTable(size_t pool_bytes, size_t chunk_bytes, SizeClass largest, StateTable states)
    : chunk_bytes_(chunk_bytes),
      states_(states),
      by_chunk_(pool_bytes / chunk_bytes),
      classes_(largest + 1),
      unassigned_chunks_(by_chunk_.size()),
      usable_chunks_(by_chunk_.size()) {}

Slot* SlotTable::Allocate(SizeClass size_class) {
  ClassSlots& of = classes_[size_class];
  if (of.available.empty()) {
    const RunLength run = RunLengthOf(size_class);
    size_t first = 0;
    if (FindRun(run.best, &first))
      MakeSpan(size_class, first, run.best);
    else if (FindRun(run.least, &first))
      MakeSpan(size_class, first, run.least);
    else
      return nullptr;
  }
  return TakeFree(&of);
}

Slot* SlotTable::TakeFree(ClassSlots* of) {
  Span* span = of->available.back();
  if (span->idle()) {
    usable_chunks_ -= span->chunks;
    of->idle -= span->slot_count;
  }
  Slot* slot = span->free;
  span->free = slot->next;
  slot->next = nullptr;
  SetState(slot, SlotState::kWriting);
  if (span->free == nullptr) of->available.pop_back();
  return slot;
}

void SlotTable::SetState(Slot* slot, SlotState state) {
  Span* span = slot->span;
  if (span->states != nullptr) StateTable::Set(*slot, state);
  ClassSlots& of = classes_[span->size_class];
  const auto account = [&](SlotState which, size_t by) {  // by: 1 or -1, wrapping
    span->count[static_cast<size_t>(which)] += static_cast<uint32_t>(by);
    bytes_in_[static_cast<size_t>(which)] += by * span->slot_bytes;
    slots_in_[static_cast<size_t>(which)] += by;
    if (which == SlotState::kFree) of.free += by;
    if (which == SlotState::kQuarantined) of.quarantined += by;
  };
  account(slot->state, size_t{0} - 1);
  account(state, 1);
  slot->state = state;
  if (state != SlotState::kFree) return;
  slot->next = span->free;
  span->free = slot;
  if (slot->next == nullptr) of.available.push_back(span);
  if (span->idle()) {
    usable_chunks_ += span->chunks;
    of.idle += span->slot_count;
  }
}

Slot* SlotTable::At(uint64_t offset) const {
  const uint64_t chunk = offset / chunk_bytes_;
  if (chunk >= by_chunk_.size()) return nullptr;
  const Span* span = by_chunk_[chunk].get();
  if (span == nullptr) return nullptr;
  if (offset < span->offset + kSlotLead) return nullptr;
  const uint64_t start = offset - span->offset - kSlotLead;
  const uint64_t index = start / span->slot_bytes;
  if (index >= span->slot_count || index * span->slot_bytes != start) return nullptr;
  return &span->slots[index];
}

size_t SlotTable::FreeBytes(SizeClass size_class) const {
  const size_t slot_bytes = SlotBytes(size_class);
  const RunLength length = RunLengthOf(size_class);
  const ClassSlots& of = classes_[size_class];
  size_t slots = of.free + of.quarantined;
  // Cuts each run as Allocate would, so that the promise is exact.
  const auto slots_of = [&](size_t run) {
    const auto in_span = [&](size_t chunks) { return chunks * chunk_bytes_ / slot_bytes; };
    return run / length.best * in_span(length.best) +
           run % length.best / length.least * in_span(length.least);
  };
  size_t run = 0;
  for (const auto& span : by_chunk_) {
    const bool soon =
        span == nullptr ||
        (span->size_class != size_class &&
         span->Count(SlotState::kFree) + span->Count(SlotState::kQuarantined) == span->slot_count);
    if (!soon) slots += slots_of(run);
    run = soon ? run + 1 : 0;
  }
  return (slots + slots_of(run)) * slot_bytes;
}

SlotTable::RunLength SlotTable::RunLengthOf(SizeClass size_class) const {
  const size_t slot_bytes = SlotBytes(size_class);
  const size_t least = DivideUp(slot_bytes, chunk_bytes_);
  const size_t longest = std::max(least, chunk_count() / kSpansPerPool);
  RunLength length{least, least};
  const auto lost = [&](size_t chunks) { return chunks * chunk_bytes_ % slot_bytes; };
  // Eight slots' worth of chunks lose at most one of eight: this ends by 8 * least.
  for (size_t chunks = least; chunks <= longest; ++chunks) {
    if (lost(chunks) * length.best < lost(length.best) * chunks) length.best = chunks;
    if (lost(length.best) * 8 <= length.best * chunk_bytes_) break;
  }
  return length;
}

bool SlotTable::Usable(size_t chunk) const {
  return by_chunk_[chunk] == nullptr || by_chunk_[chunk]->idle();
}

bool SlotTable::FindRun(size_t chunks, size_t* first) const {
  if (chunks > usable_chunks_) return false;
  size_t run = 0;
  for (size_t chunk = 0; chunk < by_chunk_.size(); ++chunk) {
    run = Usable(chunk) ? run + 1 : 0;
    if (run < chunks) continue;
    *first = chunk + 1 - chunks;
    return true;
  }
  return false;
}

void SlotTable::MakeSpan(SizeClass size_class, size_t first, size_t chunks) {
  for (size_t chunk = first; chunk < first + chunks; ++chunk)
    if (by_chunk_[chunk] != nullptr) TakeApart(by_chunk_[chunk].get());
  auto span = std::make_shared<Span>();
  span->first_chunk = static_cast<uint32_t>(first);
  span->chunks = static_cast<uint32_t>(chunks);
  span->size_class = size_class;
  span->offset = uint64_t{first} * chunk_bytes_;
  span->slot_bytes = SlotBytes(size_class);
  span->slot_count = static_cast<uint32_t>(chunks * chunk_bytes_ / span->slot_bytes);
  span->slots = std::make_unique<Slot[]>(span->slot_count);
  for (uint32_t i = span->slot_count; i-- > 0;) {  // handed out from the front
    Slot& slot = span->slots[i];
    slot.span = span.get();
    slot.index = i & 0xffffff;  // a chunk has at most 64 MiB / 4608 B
    slot.next = span->free;
    span->free = &slot;
  }
  span->count[static_cast<size_t>(SlotState::kFree)] = span->slot_count;
  bytes_in_[static_cast<size_t>(SlotState::kFree)] += span->slot_count * span->slot_bytes;
  slots_in_[static_cast<size_t>(SlotState::kFree)] += span->slot_count;
  ClassSlots& of = classes_[size_class];
  of.free += span->slot_count;
  of.idle += span->slot_count;
  of.available.push_back(span.get());
  ++of.spans;
  ++spans_;
  unassigned_chunks_ -= chunks;
  for (size_t chunk = first; chunk < first + chunks; ++chunk) by_chunk_[chunk] = span;
  span->states = states_.StatesFrom(first);
  states_.SpanMade(first, chunks, size_class);
}

Span* SlotTable::Restore(const StateTable::SpanAt& at) {
  MakeSpan(at.size_class, at.first, at.chunks);
  return by_chunk_[at.first].get();
}

void SlotTable::SetReady(Span* span, std::span<const uint8_t> ready) {
  ClassSlots& of = classes_[span->size_class];
  uint32_t count = 0;
  span->free = nullptr;
  for (uint32_t i = span->slot_count; i-- > 0;) {  // handed out from the front
    Slot& slot = span->slots[i];
    slot.next = nullptr;
    if (ready[i] != 0) {
      slot.state = SlotState::kReady;
      ++count;
    } else {
      slot.next = span->free;
      span->free = &slot;
    }
  }
  if (count == 0) return;
  const auto move = [&](SlotState state, uint32_t by) {  // by: wrapping
    span->count[static_cast<size_t>(state)] += by;
    bytes_in_[static_cast<size_t>(state)] += static_cast<int32_t>(by) * span->slot_bytes;
    slots_in_[static_cast<size_t>(state)] += static_cast<uint64_t>(static_cast<int32_t>(by));
  };
  move(SlotState::kFree, 0 - count);
  move(SlotState::kReady, count);
  of.free -= count;
  of.idle -= span->slot_count;
  usable_chunks_ -= span->chunks;
  if (span->free == nullptr) std::erase(of.available, span);
}

void SlotTable::TakeApart(Span* span) {
  states_.SpanGone(span->first_chunk);
  ClassSlots& of = classes_[span->size_class];
  of.available.erase(std::find(of.available.begin(), of.available.end(), span));
  of.free -= span->slot_count;
  of.idle -= span->slot_count;
  --of.spans;
  --spans_;
  bytes_in_[static_cast<size_t>(SlotState::kFree)] -= span->slot_count * span->slot_bytes;
  slots_in_[static_cast<size_t>(SlotState::kFree)] -= span->slot_count;
  unassigned_chunks_ += span->chunks;
  const size_t first = span->first_chunk;
  const size_t end = first + span->chunks;
  for (size_t chunk = first; chunk < end; ++chunk) by_chunk_[chunk].reset();  // the last frees it
}

}  // namespace peercache
