// Which pages go when room is needed. The caller holds the pool's mutex.
//
// Pages of the wanted class go in the order of its policy (eviction.h), pinned ones passed over.
// Their slots fit as they are. Pages of other classes go only by whole windows of chunks, because
// less would not make room: a window can go when it holds no page of the wanted class, nothing
// pinned, nothing being written and no page of a tenant that is spared (shares.h), and it is as old
// as its most recently used page. At each step
// the older of the two goes, so a class cannot hold on to chunks whose every page is colder than
// what another class would have to drop.
//
// Costs: one pass over the table of chunks, and over the slots of the windows that are looked at,
// each once; beside that a few steps for each page that is taken.
#pragma once

#include <cstddef>
#include <functional>

#include "pool/eviction.h"
#include "pool/shares.h"
#include "pool/slot_table.h"

namespace peercache {

// Calls `take` for ready, unpinned slots until room for `bytes` of slots of `size_class` is gained,
// or `most_pages` have been taken (a window is finished first), or there are none. `take` removes
// the slot from its order. Returns the bytes gained.
size_t TakeVictims(const SlotTable& table, const PoolShares& shares, EvictionOrder* own,
                   size_t bytes, size_t most_pages, SizeClass size_class,
                   const std::function<void(Slot*)>& take);

}  // namespace peercache
