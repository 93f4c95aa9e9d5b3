// S3FifoOrder: two queues and a memory ("FIFO queues are all you need for cache eviction", SOSP
// 2023).
//
//   small   pages on probation, in order of arrival. Those that were used when they reach the end
//           move to main, the others go and are remembered by the ghost.
//   main    pages that have shown their worth, as a clock: at the end, a page that was used since
//           it last came by goes round again for one use less, an unused one goes for good.
//   ghost   keys that went from small (ghost.h). When such a page is set again, the probation was
//           too short for it: it starts in main.
//
// A hit only raises a count of two bits in the slot: no list is touched, so it costs less than LRU.
//
// Half of the pages are on probation, not a tenth as in the paper: a conversation's pages are used
// again when its user has thought and typed, which is minutes later, not at once as in the traces
// of the paper. docs/dev/performance.md has the comparison.
#pragma once

#include "pool/eviction.h"
#include "pool/slot_list.h"

namespace peercache {

class S3FifoOrder final : public EvictionOrder {
 public:
  explicit S3FifoOrder(Ghost* ghost) : ghost_(ghost) {}

  void Insert(Slot* slot) override;
  void Use(Slot* slot) override {
    if (slot->uses < kMostUses) ++slot->uses;
  }
  void Remove(Slot* slot, bool evicted) override;
  Slot* Next() override;
  void Peek(size_t most, std::vector<const Slot*>* next) const override;
  uint64_t Age() const override;

  // Pages that Next looks at in a queue: tens of microseconds. When all of them are in use or have
  // been used, the oldest unpinned one goes all the same.
  static constexpr size_t kMostLooks = 1024;

  size_t small() const { return small_.size(); }
  size_t main() const { return main_.size(); }

 private:
  static constexpr uint8_t kMostUses = 3;   // what two bits hold
  static constexpr size_t kSmallOneIn = 2;  // share of the pages on probation

  static bool SmallFirst(size_t small, size_t main) { return small * kSmallOneIn >= small + main; }
  Slot* NextOfSmall();
  Slot* NextOfMain();

  Ghost* const ghost_;
  SlotList small_, main_;  // newest first
};

}  // namespace peercache
