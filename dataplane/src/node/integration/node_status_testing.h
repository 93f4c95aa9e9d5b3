// What a node says of itself in /v1/status, for tests.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "node/node.h"

namespace peercache::testing {

inline uint64_t PoolNumber(const Node& node, const char* name) {
  return nlohmann::json::parse(node.StatusJson())["pool"][name].get<uint64_t>();
}

inline uint64_t CounterOf(const Node& node, const char* name) {
  return nlohmann::json::parse(node.StatusJson())["counters"][name];
}
inline size_t MembersOf(Node& node) {
  return nlohmann::json::parse(node.StatusJson())["members"].size();
}

}  // namespace peercache::testing
