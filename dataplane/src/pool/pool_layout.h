// PoolLayout: where everything is in the memory of a pool that is a file (pool_file.h). It follows
// from a few numbers and from the release. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace peercache {

struct PoolLayout {
  size_t slots = 0;     // bytes of all slots
  size_t beside = 0;    // bytes behind them (PoolOptions::beside)
  size_t max_page = 0;  // bytes of the longest page

  size_t pages() const { return slots + beside; }
  // Bytes of the table of states, and chunks that it is of.
  size_t states() const;
  size_t chunks() const;
  // Of all places and sizes, also those of the release: what one process wrote is where another
  // looks for it only if both have the same.
  uint64_t Digest() const;
};

}  // namespace peercache
