// EvictionOrder: which of the ready pages of one size class goes next. One object for each class,
// all of one policy:
//
//   lru      the page that was not used for longest
//   s3fifo   new pages on probation, pages that were used meanwhile behind them, and a memory of
//            keys that went too early (s3fifo.h): a long document that is read once passes through
//            without pushing out the prompts that everybody shares
//
// Insert, Use and Remove are O(1) and allocate nothing; Next is O(1) per page that goes, amortized.
// Not thread-safe: the pool calls under its mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pool/eviction_policy.h"

namespace peercache {

class Ghost;
struct Slot;

class EvictionOrder {
 public:
  virtual ~EvictionOrder() = default;
  // The page has just become ready. That is no use of it yet.
  virtual void Insert(Slot* slot) = 0;
  // The page has been asked for and was there.
  virtual void Use(Slot* slot) = 0;
  // The page goes. `evicted`: for want of room, so it would have been kept in a larger pool.
  virtual void Remove(Slot* slot, bool evicted) = 0;
  // The page to go next, in place until Remove; nullptr when there is none that is not pinned.
  // Pinned pages that are met count as new ones: somebody uses them just now.
  virtual Slot* Next() = 0;
  // Adds the pages that go after one another, `most` of them, without those that are pinned or
  // would be spared. Looks at kLooks pages for each at most, so it may find fewer.
  virtual void Peek(size_t most, std::vector<const Slot*>* next) const = 0;
  // How old the page is that has to fear for its place, as a `last_use`; UINT64_MAX without pages.
  // What other classes give up is compared with that.
  virtual uint64_t Age() const = 0;

 protected:
  static constexpr size_t kLooks = 8;
};

// `ghost` outlives the order; LRU takes none.
std::unique_ptr<EvictionOrder> MakeEvictionOrder(EvictionPolicy policy, Ghost* ghost);

}  // namespace peercache
