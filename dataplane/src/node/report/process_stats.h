// ProcessStats: what the kernel says of this process. An embedded node's process is the engine's.
#pragma once

#include <cstdint>

namespace peercache {

struct ProcessStats {
  double cpu_seconds = 0;       // user and system
  uint64_t resident_bytes = 0;  // pages of the pool that are in use here included
  uint64_t open_fds = 0, max_fds = 0;
  uint64_t threads = 0;
};

// Takes as long as counting the open file descriptors. What cannot be read is 0.
ProcessStats ReadProcessStats();

}  // namespace peercache
