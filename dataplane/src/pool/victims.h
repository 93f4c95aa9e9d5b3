// Which pages go when room is needed. Decides only; the caller holds the pool's mutex and takes
// what is chosen out of service.
//
// Pages of the wanted class go in exact LRU order, pinned ones passed over. Their slots fit as they
// are. Pages of other classes go only by whole windows of chunks, because less would not make room:
// a window can go when it holds no page of the wanted class, nothing pinned and nothing being
// written, and it is as old as its most recently used page. At each step the older of the two goes,
// so a class cannot hold on to chunks whose every page is colder than what another class would have
// to drop.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "pool/lru.h"
#include "pool/slot_table.h"

namespace peercache {

// Ready, unpinned slots whose going makes room for at least `bytes` of slots of `size_class`, or
// all there are. `lru` holds the ready slots by class.
std::vector<Slot*> ChooseVictims(const SlotTable& table, std::span<const LruList> lru, size_t bytes,
                                 SizeClass size_class);

}  // namespace peercache
