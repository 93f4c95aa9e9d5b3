// Which pages go when room is needed. The caller holds the pool's mutex.
//
// Pages of the wanted class go in the order of its policy (eviction.h), pinned ones passed over.
// Their slots fit as they are. Pages of other classes go only by whole windows of chunks, because
// less would not make room. A window can go when it holds no page of the wanted class, nothing
// pinned, nothing being written and no page of a tenant that is spared (shares.h). It is as old as
// its most recently used page. At each step the older of page and window goes, so a class cannot
// hold on to chunks whose every page is colder than what another class would have to drop.
//
// Costs: one pass over the table of chunks, and over the slots of the windows that are looked at;
// beside that a few steps for each page that is taken. A pinned or spared page in each window would
// make that all slots of the pool, so one call looks at kMostLooks of them and says when it has not
// looked at all.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "pool/eviction.h"
#include "pool/shares.h"
#include "pool/slot_table.h"

namespace peercache {

// What several calls of TakeVictims know together, so that each goes on where the one before has
// stopped. Between them the mutex is free.
struct VictimSearch {
  // Slots that one call looks at, and the rest of the window that it is at: about 0.1 ms. The
  // largest chunk, of 64 MiB, has almost as many of 4 KiB, so fewer would bound nothing.
  static constexpr size_t kMostLooks = 16'384;

  std::vector<bool> stays;  // chunks of spans with a page that has to stay
  size_t looks = 0;         // of the last call
  bool unfinished = false;  // it has not looked at all windows: call again
};

// Calls `take` for ready, unpinned slots until room for `bytes` of slots of `size_class` is gained,
// or `most_pages` have been taken (a window is finished first), or there are none, or it has looked
// at enough (`search`). `take` removes the slot from its order. Returns the bytes gained.
size_t TakeVictims(const SlotTable& table, const PoolShares& shares, EvictionOrder* own,
                   size_t bytes, size_t most_pages, SizeClass size_class, VictimSearch* search,
                   const std::function<void(Slot*)>& take);

}  // namespace peercache
