// How the pages of this node travel, and why: the rails it was told of or found, or none.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "node/config.h"
#include "node/fabric.h"

namespace peercache {

struct Transport {
  std::unique_ptr<Fabric> fabric;  // null: TCP
  std::string why;                 // for people
};

// Looks at this machine's devices and opens those that config.device_name lists, or all usable
// ones. Fails only when config.transport asks for RDMA and it cannot be had; the error names the
// fix.
Result<Transport> OpenFabric(const NodeConfig& config, std::span<std::byte> pool);

}  // namespace peercache
