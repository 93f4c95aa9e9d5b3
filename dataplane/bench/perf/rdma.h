// Rdma: READs from one memory into another, as nodes do it and nothing else around them: what
// ib_read_bw measures, for the sake of comparison.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"

namespace peercache::perf {

struct RdmaShape {
  std::string devices;         // as the node's option device-name
  std::string host;            // of the server; empty: be the server
  uint16_t port = 18515;       // as ib_read_bw has it
  uint32_t bytes = 128 << 10;  // of one READ
  uint32_t batch = 32;         // READs that are begun together
  uint64_t reads = 1000;       // in all; whole batches
  uint32_t spin_us = 50;       // as the node's option rdma-spin-us
};

// Ends when its reader has gone.
Result<nlohmann::json> RdmaServe(const RdmaShape& shape);
Result<nlohmann::json> RdmaRead(const RdmaShape& shape);

}  // namespace peercache::perf
