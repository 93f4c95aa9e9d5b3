// What a device counts of its requests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/latency_counts.h"
#include "disk/io.h"

namespace peercache::disk {

struct DeviceCounts {
  uint64_t reads = 0, writes = 0, errors = 0;
  uint64_t bytes_read = 0, bytes_written = 0;
  std::array<LatencyCounts, 3> times{};  // from sending to the end, by IoRequest::Op
  Duration longest{};
  uint32_t in_flight = 0;
  uint32_t page_reads_in_flight = 0;
  uint64_t page_bytes_in_flight = 0;

  LatencyCounts& Of(IoRequest::Op op) { return times[static_cast<size_t>(op)]; }
  const LatencyCounts& Of(IoRequest::Op op) const { return times[static_cast<size_t>(op)]; }
};

}  // namespace peercache::disk
