#include "pool/s3fifo.h"

#include <algorithm>
#include <utility>

#include "pool/ghost.h"

namespace peercache {

void S3FifoOrder::Insert(Slot* slot) {
  slot->uses = 0;
  slot->probation = !ghost_->Take(slot->key);
  (slot->probation ? small_ : main_).PushFront(slot);
}

void S3FifoOrder::Remove(Slot* slot, bool evicted) {
  if (!slot->probation) return main_.Remove(slot);
  small_.Remove(slot);
  if (evicted) ghost_->Add(slot->key);
}

Slot* S3FifoOrder::Next() {
  // Either queue may hold nothing but pinned pages; then the other one has to give.
  const bool small_first = SmallFirst(small_.size(), main_.size());
  Slot* slot = small_first ? NextOfSmall() : NextOfMain();
  if (slot != nullptr) return slot;
  return small_first ? NextOfMain() : NextOfSmall();
}

void S3FifoOrder::Peek(size_t most, std::vector<const Slot*>* next) const {
  // As Next(), but nothing moves: the sizes and ends are those that would be by then.
  size_t small = small_.size(), main = main_.size();
  const Slot *small_end = small_.back(), *main_end = main_.back();
  bool small_first = SmallFirst(small, main);
  for (size_t looks = most * kLooks; looks > 0 && most > 0; --looks) {
    if (small_end == nullptr && main_end == nullptr) return;
    const bool from_small = main_end == nullptr || (small_first && small_end != nullptr);
    const Slot*& end = from_small ? small_end : main_end;
    const Slot* slot = std::exchange(end, end->previous);
    if (slot->pinned()) continue;
    if (slot->uses > 0) {  // goes round again, or to main
      if (from_small) --small, ++main;
      continue;
    }
    next->push_back(slot);
    --most;
    --(from_small ? small : main);
    small_first = SmallFirst(small, main);
  }
}

Slot* S3FifoOrder::NextOfSmall() {
  for (size_t left = std::min(small_.size(), kMostLooks); left > 0; --left) {
    Slot* slot = small_.back();
    if (slot->pinned()) {
      small_.MoveToFront(slot);
    } else if (slot->uses > 0) {
      small_.Remove(slot);
      slot->uses = 0;
      slot->probation = false;
      main_.PushFront(slot);
    } else {
      return slot;
    }
  }
  return nullptr;
}

Slot* S3FifoOrder::NextOfMain() {
  for (size_t left = std::min(main_.size() * kMostUses, kMostLooks); left > 0; --left) {
    Slot* slot = main_.back();
    if (!slot->pinned() && slot->uses == 0) return slot;
    if (slot->uses > 0) --slot->uses;
    main_.MoveToFront(slot);
  }
  for (size_t left = std::min(main_.size(), kMostLooks); left > 0; --left) {
    if (!main_.back()->pinned()) return main_.back();
    main_.MoveToFront(main_.back());
  }
  return nullptr;
}

uint64_t S3FifoOrder::Age() const {
  // Pages on probation have no claim to the memory of other classes while there are proven ones.
  const Slot* oldest = main_.back() != nullptr ? main_.back() : small_.back();
  return oldest != nullptr ? oldest->last_use : UINT64_MAX;
}

}  // namespace peercache
