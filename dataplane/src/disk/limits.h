// What a device and its log may have under way, and when a drive counts as failed.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace peercache::disk {

inline constexpr uint64_t kRegionBytes = 64 << 20;

struct BreakerLimits {
  uint32_t errors = 8;
  Duration window = std::chrono::seconds(60);
  Duration slow = std::chrono::seconds(1);
  Duration slow_sync = std::chrono::seconds(10);
};

struct DeviceLimits {
  BreakerLimits breaker;
  // Reads of pages under way. More are refused: the caller has other work to do than to queue.
  uint32_t reads = 128;
  uint64_t read_bytes = 64 << 20;
};

struct LogLimits {
  uint32_t max_page_bytes = 4 << 20;
  uint64_t write_rate = 300'000'000;  // bytes a second; 0: none
  uint32_t write_depth = 2;
  // From Append until the page survives a crash of the process, with a drive that keeps up. Half of
  // it is for the data, half for the contents block.
  Duration flush_after = std::chrono::seconds(1);
};

}  // namespace peercache::disk
