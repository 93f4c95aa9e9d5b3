#pragma once

#include <cstdint>

namespace peercache {

// A run of bytes in this process's memory.
struct Segment {
  uint64_t address = 0;
  uint64_t length = 0;
};

}  // namespace peercache
