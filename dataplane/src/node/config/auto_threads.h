// How many threads a node has where its options leave it to the machine: by the cores that this
// process may use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace peercache {

// Four threads move what a socket's memory can.
inline uint32_t CopyThreads(uint32_t told, unsigned cores) {
  return told != 0 ? told : std::clamp(cores, 1u, 4u);
}

// One sends 10 GB/s over TCP. Of 16 cores, four send what 16 bare connections do, and two send 0.6
// of it (docs/dev/performance.md). The other cores are for who receives.
inline uint32_t IoThreads(uint32_t told, unsigned cores) {
  return told != 0 ? told : std::clamp(cores / 4, 2u, 4u);
}

// The most that a node starts for itself. Where there are fewer, it may be one without which it
// aborts that is not to be had. Each tenant's socket and each engine's connection takes one more.
inline uint64_t NodeThreads(uint32_t copy, uint32_t io, size_t rails, size_t drives) {
  // Membership, upkeep, sockets, HTTP, files that change, and two that bring pools in.
  constexpr uint64_t kAlways = 19;
  constexpr uint64_t kForRails = 11;                  // links, keys, a watcher
  constexpr uint64_t kForDrives = 4, kOfADrive = 18;  // 16 where threads do its I/O (io_threads.cc)
  return kAlways + (copy - 1) + io + (rails == 0 ? 0 : kForRails + 2 * rails) +
         (drives == 0 ? 0 : kForDrives + kOfADrive * drives);
}

}  // namespace peercache
