// Whether the MTU of an RDMA port fits that of its network interface. Pure.
#pragma once

#include <optional>
#include <string>

#include "transport/rdma/device.h"

namespace peercache::rdma {

struct MtuFinding {
  bool fault = false;  // packets are lost; otherwise bandwidth is
  std::string text;    // with the remedy
};

// Nothing when both fit, when one is unknown and on InfiniBand.
std::optional<MtuFinding> CheckMtu(const Port& port, const Interface& interface);

}  // namespace peercache::rdma
