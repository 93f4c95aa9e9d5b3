// Adoption: takes over the pages of the process before, from a pool that is a file (pool_file.h).
//
// A page is taken over when the state table says that it was ready, and its header is that of a
// page of this slot. All other slots are free; their headers are void before anybody may write to
// them. The caller has checked that no fault ended that process, so what it wrote is what it meant.
//
// Costs: one read of 64 bytes for each page that was ready, by a system call: a page fault costs
// several times as much and would be followed by more. About a microsecond a page in all.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/memory.h"
#include "pool/adopted.h"
#include "pool/pool_file.h"
#include "pool/slot_table.h"
#include "pool/state_table.h"

namespace peercache {

// For whoever reads the log: what was taken over, or why the file was emptied.
void LogStart(const PoolFile& file, size_t bytes, size_t page_size, const Adoption& adoption);

// `table` is new, of the pool `memory` and its states, which have these spans. `keep` is called for
// each page, the one that was set first first; false: it has the key already.
void AdoptPages(std::span<const StateTable::SpanAt> spans, uint64_t generation_limit,
                const MappedRegion& memory, SlotTable* table,
                const std::function<bool(Slot*)>& keep, Adoption* adoption);

}  // namespace peercache
