// How the pages of this node travel, and why: the rails it was told of or found, or none.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "node/config/config.h"
#include "node/rails/fabric.h"
#include "transport/rdma/rail.h"

namespace peercache {

struct Transport {
  std::unique_ptr<Fabric> fabric;  // null: TCP
  std::string why;                 // for people
};

// The ports of this machine that config.device_name lists, or all usable ones; why there are none.
// Those that are listed may have to wait for their port or its address, but not all of them when
// config.transport asks for RDMA. Looked for before there is a pool, whose memory belongs near.
using FoundRails = Result<std::vector<rdma::RailSpec>>;
FoundRails FindRails(const NodeConfig& config);

// Opens these rails. Fails only when config.transport asks for RDMA and it cannot be had; the error
// names the fix.
Result<Transport> OpenFabric(const NodeConfig& config, const FoundRails& rails,
                             std::span<std::byte> pool);

}  // namespace peercache
