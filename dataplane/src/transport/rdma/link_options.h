// How queue pairs travel and memory is registered; the same for all rails of a node.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace peercache::rdma {

struct LinkOptions {
  uint8_t traffic_class = 0;  // DSCP << 2 of RoCE v2
  uint8_t service_level = 0;
  uint8_t timeout = 12;  // of an acknowledgement: AckTimeout
  uint8_t retries = 7;   // at most 7
  uint16_t pkey_index = 0;
  uint32_t mtu = 0;  // bytes, at most; 0: what both ports have
  // Registered memory is not locked, by devices that have on-demand paging.
  bool on_demand_paging = false;
  // Devices may write what a READ brings in any order until it is complete (memory.cc).
  bool relaxed_ordering = true;
  // Devices at both ends agree on what they do beyond the specification (ece.h).
  bool ece = false;
  // Queue pairs of each rail towards a peer; 0: as many as its port needs (find_rails.h).
  uint32_t queues = 0;
};

// What `timeout` stands for. A device may take up to four times as long, says InfiniBand's
// specification (volume 1, 9.7.6.1.3).
constexpr std::chrono::nanoseconds AckTimeout(uint8_t timeout) {
  return std::chrono::nanoseconds(int64_t{4096} << timeout);
}
constexpr int kAckTimeoutSpread = 4;

// The same of a device that is a program (soft-RoCE). It waits just as long as it is told, counted
// in ticks of the kernel, and its answers wait for a processor: it is told at once the most that
// others take. Shorter, it asks again for what is on its way, and then may wait for ever.
constexpr uint8_t SoftwareTimeout(uint8_t timeout) {
  static_assert(kAckTimeoutSpread == 1 << 2);
  return timeout == 0 || timeout > 29 ? timeout : static_cast<uint8_t>(timeout + 2);
}

}  // namespace peercache::rdma
