// What a device and its log may have under way, and when a drive counts as failed.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace peercache::disk {

inline constexpr uint64_t kRegionBytes = 64 << 20;

struct BackoffLimits {
  Duration first{}, most{};
  Duration calm = std::chrono::minutes(10);
};

struct BreakerLimits {
  uint32_t errors = 8;
  Duration window = std::chrono::seconds(60);
  Duration slow = std::chrono::seconds(1);
  Duration slow_sync = std::chrono::seconds(10);
  // Until a device that is off is tried again. One that stalls each time that it is used costs
  // readers `slow` in `most`, so a sixtieth of their time.
  BackoffLimits retry{std::chrono::seconds(5), std::chrono::minutes(1)};
  // Pages of a device that is off for longer leave.
  Duration keep_pages = std::chrono::seconds(60);
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
  // Until something is put again after a write that failed.
  BackoffLimits pause{std::chrono::seconds(1), std::chrono::minutes(1)};
};

}  // namespace peercache::disk
