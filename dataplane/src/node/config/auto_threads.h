// How many threads a node has where its options leave it to the machine: by the cores that this
// process may use.
#pragma once

#include <algorithm>
#include <cstdint>

namespace peercache {

// Four threads move what a socket's memory can.
inline uint32_t CopyThreads(uint32_t told, unsigned cores) {
  return told != 0 ? told : std::clamp(cores, 1u, 4u);
}

// One sends 10 GB/s over TCP. Of 16 cores, four send what 16 bare connections do, and two send 0.6
// of it (docs/performance.md). The other cores are for who receives.
inline uint32_t IoThreads(uint32_t told, unsigned cores) {
  return told != 0 ? told : std::clamp(cores / 4, 2u, 4u);
}

}  // namespace peercache
