// LruList: the ready slots of one size class, most recently used first, linked through the slots.
// Not thread-safe.
#pragma once

#include "pool/slot.h"

namespace peercache {

class LruList {
 public:
  void PushFront(Slot* slot) {
    slot->previous = nullptr;
    slot->next = front_;
    (front_ != nullptr ? front_->previous : back_) = slot;
    front_ = slot;
  }
  void Remove(Slot* slot) {
    (slot->previous != nullptr ? slot->previous->next : front_) = slot->next;
    (slot->next != nullptr ? slot->next->previous : back_) = slot->previous;
    slot->previous = slot->next = nullptr;
  }
  void MoveToFront(Slot* slot) {
    if (slot == front_) return;
    Remove(slot);
    PushFront(slot);
  }
  // The least recently used; follow `previous` to newer ones.
  Slot* back() const { return back_; }

 private:
  Slot* front_ = nullptr;
  Slot* back_ = nullptr;
};

}  // namespace peercache
