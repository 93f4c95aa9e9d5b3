// LruOrder: the page that was not used for longest goes next.
#pragma once

#include "pool/eviction.h"
#include "pool/slot_list.h"

namespace peercache {

class LruOrder final : public EvictionOrder {
 public:
  void Insert(Slot* slot) override { list_.PushFront(slot); }
  void Use(Slot* slot) override { list_.MoveToFront(slot); }
  void Remove(Slot* slot, bool /*evicted*/) override { list_.Remove(slot); }
  Slot* Next() override {
    for (size_t left = list_.size(); left > 0; --left) {
      if (!list_.back()->pinned()) return list_.back();
      list_.MoveToFront(list_.back());
    }
    return nullptr;
  }
  void Peek(size_t most, std::vector<const Slot*>* next) const override {
    const Slot* slot = list_.back();
    for (size_t looks = most * kLooks; looks > 0 && most > 0 && slot != nullptr; --looks) {
      if (!slot->pinned()) {
        next->push_back(slot);
        --most;
      }
      slot = slot->previous;
    }
  }
  uint64_t Age() const override {
    return list_.back() != nullptr ? list_.back()->last_use : UINT64_MAX;
  }

 private:
  SlotList list_;  // most recently used first
};

}  // namespace peercache
