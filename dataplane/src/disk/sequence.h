// Where the sequence (base/sequence.h) of a process begins. It counts pages, clears and regions of
// all devices, and the generations of a pool before the tier, and never goes back, also not over a
// restart: whatever has a higher one is younger.
//
// A process takes its sequences from a range of its own. Each device's superblock names the
// beginning of the last range. The next process begins behind the ranges of all devices that it
// finds, and at the wall clock in nanoseconds if that is later: so also behind that of a device
// that is away now. A range lasts 10^12 pages.
#pragma once

#include <algorithm>
#include <cstdint>

namespace peercache::disk {

inline constexpr uint64_t kSequenceRange = uint64_t{1} << 40;

inline uint64_t FirstSequence(uint64_t newest_range, uint64_t wall_nanoseconds) {
  return std::max(newest_range + kSequenceRange, wall_nanoseconds);
}

}  // namespace peercache::disk
