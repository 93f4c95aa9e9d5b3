// Which descriptors of this process are behind a range of its memory: what another process can map.
//
// A shared mapping is found by its inode among the open descriptors, not by a name: so it does not
// matter how an engine names its files, or whether it has unlinked them.
//
// Thread-safe. A descriptor that another thread closes meanwhile is not found, never mistaken.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"

namespace peercache::capi {

struct SharedRange {
  UniqueFd fd;  // a duplicate
  uint64_t base = 0, length = 0, fd_offset = 0;
};

// The parts of [address, address + length) that are mapped shared and writable, from files that
// this process has open for reading and writing. Costs a walk of /proc/self/maps and /proc/self/fd:
// about 2 us for each of their lines.
std::vector<SharedRange> SharedRanges(uint64_t address, uint64_t length);

}  // namespace peercache::capi
