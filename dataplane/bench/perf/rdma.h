// Rdma: READs from one memory into another, as nodes do it and nothing else around them: what
// ib_read_bw measures, for the sake of comparison.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/memory.h"
#include "base/status.h"
#include "transport/rdma/link_options.h"

namespace peercache::perf {

// Both ends have the same, but for devices, host, and how many.
struct RdmaShape {
  std::string devices;         // as the node's option device-name
  std::string gid = "auto";    // as the node's option rdma-gid
  std::string host;            // of the server; empty: be the server
  uint16_t port = 18515;       // as ib_read_bw has it
  uint32_t bytes = 128 << 10;  // of one READ
  uint32_t batch = 32;         // READs that are begun together
  bool window = false;         // no batches: so many READs under way at any time (window.h)
  uint64_t reads = 1000;       // in all; whole batches
  uint32_t threads = 1;        // each with a link of its own
  // Of which slots at random are read, so that no cache holds them; 0: what a batch takes.
  uint64_t pool_bytes = 0;
  HugePages huge_pages = HugePages::kOff;
  rdma::LinkOptions link;  // queues, traffic class, relaxed ordering
  uint32_t spin_us = 50;   // as the node's option rdma-spin-us
};

// Ends when its reader has gone.
Result<nlohmann::json> RdmaServe(const RdmaShape& shape);
Result<nlohmann::json> RdmaRead(const RdmaShape& shape);

}  // namespace peercache::perf
