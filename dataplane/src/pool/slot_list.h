// SlotList: ready slots in some order, linked through the slots, so that no operation allocates. A
// slot is in one list at a time. Not thread-safe.
#pragma once

#include <cstddef>

#include "pool/slot.h"

namespace peercache {

class SlotList {
 public:
  void PushFront(Slot* slot) {
    slot->previous = nullptr;
    slot->next = front_;
    (front_ != nullptr ? front_->previous : back_) = slot;
    front_ = slot;
    ++size_;
  }
  void Remove(Slot* slot) {
    (slot->previous != nullptr ? slot->previous->next : front_) = slot->next;
    (slot->next != nullptr ? slot->next->previous : back_) = slot->previous;
    slot->previous = slot->next = nullptr;
    --size_;
  }
  void MoveToFront(Slot* slot) {
    if (slot == front_) return;
    Remove(slot);
    PushFront(slot);
  }
  Slot* back() const { return back_; }
  size_t size() const { return size_; }

 private:
  Slot* front_ = nullptr;
  Slot* back_ = nullptr;
  size_t size_ = 0;
};

}  // namespace peercache
