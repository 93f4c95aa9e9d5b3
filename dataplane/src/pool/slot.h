// Slot: what the pool knows of one slot, kept outside of the pool's own memory. Span: a run of
// chunks that is cut into equal slots.
//
// Synchronisation: the pool's mutex guards every field but `pins`. Pins are raised only under the
// mutex and only while the state is ready; they are lowered anywhere, with release. So whoever
// holds the mutex and reads zero with acquire knows that no reader is left, and that none can come
// before the mutex is released, or at all once the state is no longer ready.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/key.h"
#include "base/last_time.h"
#include "pool/published_to.h"
#include "pool/size_class.h"
#include "pool/slot_header.h"

namespace peercache {

enum class SlotState : uint8_t { kFree, kWriting, kReady, kWithdrawing, kQuarantined };
inline constexpr size_t kSlotStates = 5;

struct Span;

struct Slot {
  Key key;
  uint64_t generation = 0;
  uint64_t tag = 0;
  uint64_t checksum = 0;
  uint64_t last_use = 0;  // of the pool's count of uses
  // In a list of its class's EvictionOrder while ready; `next` also links free slots.
  Slot* previous = nullptr;
  Slot* next = nullptr;
  Span* span = nullptr;
  uint32_t index : 24 = 0;  // in its span
  uint32_t tenant : 8 = 0;  // that has set it (shares.h)
  uint32_t length = 0;
  std::atomic<uint32_t> pins = 0;
  SlotState state = SlotState::kFree;
  uint8_t uses : 2 = 0;  // for s3fifo.h, as is the next
  uint8_t probation : 1 = 0;
  uint8_t replica : 1 = 0;  // a copy of a page that another node holds
  uint8_t heat : 4 = 0;     // at last_use (heat.h)
  PublishedTo published_to;
  LastTime told;  // of the page, but by the shards it is published to

  inline uint64_t offset() const;  // of its header in the pool
  bool pinned() const {
    return pins.load(std::memory_order_acquire) != 0;
  }  // model: settle_publish
};

struct Span {
  uint32_t first_chunk = 0;
  uint32_t chunks = 0;
  SizeClass size_class = 0;
  uint32_t slot_count = 0;
  uint64_t offset = 0;  // of the first slot in the pool
  size_t slot_bytes = 0;
  std::unique_ptr<Slot[]> slots;
  uint8_t* states =
      nullptr;  // of the slots, for the next process (state_table.h); null: there is none
  Slot* free = nullptr;
  std::array<uint32_t, kSlotStates> count{};  // slots by state
  uint64_t newest_use = 0;                    // of all its pages, also of those gone

  uint32_t Count(SlotState state) const { return count[static_cast<size_t>(state)]; }
  bool idle() const { return Count(SlotState::kFree) == slot_count; }
};

uint64_t Slot::offset() const {
  return span->offset + uint64_t{index} * span->slot_bytes + kSlotLead;
}

}  // namespace peercache
