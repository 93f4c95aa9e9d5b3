// What tests of whole nodes over RDMA share; they need devices (hack/soft-rdma brings some).
// PEERCACHE_TEST_RAILS lists them. All nodes are in one process and use the same rails.
#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "node/node.h"
#include "node/node_testing.h"

namespace peercache::testing {

inline void UseRails(NodeConfig* config) {
  config->transport = "rdma";
  config->device_name = std::getenv("PEERCACHE_TEST_RAILS");
  config->rdma_spin = {};
  config->promotion_percent = 0;  // replicas would be read instead
  config->lease = milliseconds(1000);
  config->peer_timeout = std::chrono::seconds(5);  // a guest may get little of the processors
}

inline nlohmann::json Status(Node& node) { return nlohmann::json::parse(node.StatusJson()); }
inline uint64_t CounterOf(Node& node, const char* name) { return Status(node)["counters"][name]; }
inline uint64_t RailBytes(Node& node) {
  uint64_t bytes = 0;
  const nlohmann::json status = Status(node);
  for (const nlohmann::json& rail : status["transport"]["rails"])
    bytes += rail["read_bytes"].get<uint64_t>();
  return bytes;
}

}  // namespace peercache::testing
