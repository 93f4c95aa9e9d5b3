// How queue pairs travel and memory is registered; the same for all rails of a node.
#pragma once

#include <cstdint>

namespace peercache::rdma {

struct LinkOptions {
  uint8_t traffic_class = 0;  // DSCP << 2 of RoCE v2
  uint8_t service_level = 0;
  uint8_t hop_limit = 64;
  uint8_t timeout = 14;  // of an acknowledgement: 4.096 us * 2^timeout
  uint8_t retries = 7;   // at most 7
  uint16_t pkey_index = 0;
  uint32_t mtu = 0;  // bytes, at most; 0: what both ports have
  // Registered memory is not locked, by devices that have on-demand paging.
  bool on_demand_paging = false;
};

}  // namespace peercache::rdma
