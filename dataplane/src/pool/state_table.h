// StateTable: what a pool that is a file says of its slots to the process that comes after this one
// (pool_file.h). It lies beside the slots and follows every transition.
//
//   spans    8 bytes for each chunk: where a span begins, its chunks and size class; else 0
//   states   a byte for each slot, at a place that follows from its chunk and its index in the span
//
// Headers alone would not do: a withdrawn page keeps its header until its slot is free, and the
// page must not come back.
//
// Order. A process may be killed between any two instructions, and the next one sees every store
// before that one. So the byte says ready only after the header is whole, and ceases to before
// anybody is told that the page goes; a span is named only while its slots' bytes are what they
// say. The bytes of free slots, and of chunks that no span has, are 0.
//
// Costs: one store for each transition; a page's byte is in memory that nobody else writes but its
// neighbours in the span. The table has 1/4608 of the pool, and 8 bytes for each chunk.
//
// Not thread-safe: the pool calls it under its mutex.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "pool/size_class.h"
#include "pool/slot.h"

namespace peercache {

class StateTable {
 public:
  // kFree to kQuarantined are those of SlotState; a replica that is ready has a byte of its own.
  static constexpr uint8_t kReady = static_cast<uint8_t>(SlotState::kReady);
  static constexpr uint8_t kReadyReplica = kSlotStates;

  struct SpanAt {
    size_t first = 0, chunks = 0;
    SizeClass size_class = 0;
    size_t slots = 0;
  };

  // Of a pool of so many chunks. A multiple of 8.
  static size_t BytesFor(size_t chunks, size_t chunk_bytes);

  // Without memory it keeps nothing: the pool ends with its process.
  StateTable() = default;
  // `memory`: BytesFor(...), aligned to 8.
  StateTable(std::span<std::byte> memory, size_t chunks, size_t chunk_bytes);

  explicit operator bool() const { return chunks_ != 0; }

  // ---- with the transitions
  // The bytes of the slots of a span that begins here; nullptr without memory.
  uint8_t* StatesFrom(size_t first_chunk) const {
    return chunks_ == 0 ? nullptr : states_ + first_chunk * StatesPerChunk(chunk_bytes_);
  }
  void SpanMade(size_t first_chunk, size_t chunks, SizeClass size_class);
  void SpanGone(size_t first_chunk);
  // The slot's span has states. As the slot says it is, in state `state`.
  static void Set(const Slot& slot, SlotState state) {
    const bool replica = state == SlotState::kReady && slot.replica;
    Set(&slot.span->states[slot.index], replica ? kReadyReplica : static_cast<uint8_t>(state));
  }
  static void Set(uint8_t* state, uint8_t value) {
    std::atomic_ref(*state).store(value, std::memory_order_release);
  }

  // ---- for the process that comes after
  // All spans; an error says what no pool can have written.
  Result<std::vector<SpanAt>> Spans(SizeClass largest) const;
  std::span<uint8_t> StatesOf(const SpanAt& span) const {
    return {StatesFrom(span.first), span.slots};
  }

 private:
  static size_t StatesPerChunk(size_t chunk_bytes);

  uint64_t* spans_ = nullptr;
  uint8_t* states_ = nullptr;
  size_t chunks_ = 0, chunk_bytes_ = 0;
};

}  // namespace peercache
