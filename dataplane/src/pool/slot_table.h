// SlotTable: which part of the pool is a slot of which size, and the state of each.
//
// The pool is cut into chunks of equal size (a power of two, 1/64 of the pool, between 2 MiB and
// 64 MiB). A span is a run of adjacent chunks that belongs to one size class: one chunk for small
// slots, as many as it takes to lose at most 1/8 at the end for large ones, so a slot may be larger
// than a chunk. A span all of whose slots are free is idle; it is taken apart when another class
// needs its chunks, not before, so a class that breathes keeps its span.
//
// Not thread-safe: the pool calls it under its mutex. Holds no page bytes and no index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pool/slot.h"
#include "pool/state_table.h"

namespace peercache {

class SlotTable {
 public:
  static size_t ChunkBytes(size_t pool_bytes);

  // `pool_bytes` a multiple of `chunk_bytes`, which is a power of two. `states` follows what is
  // done here.
  SlotTable(size_t pool_bytes, size_t chunk_bytes, SizeClass largest, StateTable states = {});

  // A free slot of the class, in state writing; nullptr when there is none.
  Slot* Allocate(SizeClass size_class);
  // Changes the state and keeps all counts. Free slots become available to Allocate.
  void SetState(Slot* slot, SlotState state);
  // A span of the process before, of chunks that no span has. Its slots are free.
  Span* Restore(const StateTable::SpanAt& at);
  // Slots of a restored span that are ready: those where `ready` is not 0.
  void SetReady(Span* span, std::span<const uint8_t> ready);
  // The slot whose header is at `offset`, which may come from anywhere; nullptr when none is.
  Slot* At(uint64_t offset) const;

  // Bytes of slots of this class that are free or could be made of idle chunks, counting
  // quarantined slots as free.
  size_t FreeBytes(SizeClass size_class) const;
  // Bytes and number of all slots in `state`, and bytes of chunks that no span holds.
  size_t BytesIn(SlotState state) const { return bytes_in_[static_cast<size_t>(state)]; }
  uint64_t SlotsIn(SlotState state) const { return slots_in_[static_cast<size_t>(state)]; }
  size_t unassigned_bytes() const { return unassigned_chunks_ * chunk_bytes_; }
  // Chunks that any class may take: unassigned, or of idle spans.
  size_t usable_bytes() const { return usable_chunks_ * chunk_bytes_; }
  // Free slots of this class, without those in usable chunks.
  size_t FreeSlotBytes(SizeClass size_class) const {
    return (classes_[size_class].free - classes_[size_class].idle) * SlotBytes(size_class);
  }
  size_t QuarantinedBytes(SizeClass size_class) const {
    return classes_[size_class].quarantined * SlotBytes(size_class);
  }
  bool HasSpans(SizeClass size_class) const { return classes_[size_class].spans > 0; }

  // For those who look for chunks to empty.
  size_t chunk_count() const { return by_chunk_.size(); }
  size_t chunk_bytes() const { return chunk_bytes_; }
  const StateTable& states() const { return states_; }
  Span* SpanOf(size_t chunk) const { return by_chunk_[chunk].get(); }
  // Whether spans of other classes exist.
  bool HasOthers(SizeClass size_class) const { return spans_ > classes_[size_class].spans; }
  struct RunLength {
    size_t best = 0;   // chunks of a span that loses little
    size_t least = 0;  // chunks that hold one slot; taken when no longer run is free
  };
  RunLength RunLengthOf(SizeClass size_class) const;

 private:
  struct ClassSlots {
    std::vector<Span*> available;  // spans with free slots
    size_t spans = 0;
    size_t quarantined = 0, free = 0;  // slots
    size_t idle = 0;                   // of the free ones, those in idle spans
  };

  bool Usable(size_t chunk) const;
  bool FindRun(size_t chunks, size_t* first) const;
  void MakeSpan(SizeClass size_class, size_t first, size_t chunks);
  void TakeApart(Span* span);
  Slot* TakeFree(ClassSlots* of);

  const size_t chunk_bytes_;
  StateTable states_;
  std::vector<std::shared_ptr<Span>> by_chunk_;
  std::vector<ClassSlots> classes_;
  std::array<size_t, kSlotStates> bytes_in_{};
  std::array<uint64_t, kSlotStates> slots_in_{};
  size_t spans_ = 0;
  size_t unassigned_chunks_;
  size_t usable_chunks_;  // unassigned or of idle spans
};

}  // namespace peercache
