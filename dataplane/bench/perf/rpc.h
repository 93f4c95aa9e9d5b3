// Rpc: small requests to a node's peer port: lookups of one key.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "transport/tcp/tls.h"

namespace peercache::perf {

struct RpcTarget {
  std::string host = "127.0.0.1";
  uint16_t port = 31998;
  std::string cluster = "default";
  TlsFiles tls;  // without a certificate: plain
};

// One request in flight, through the channel that nodes use.
Result<nlohmann::json> RpcLatency(const RpcTarget& target, double seconds, pid_t server);
// `window` requests in flight on one connection.
Result<nlohmann::json> RpcRate(const RpcTarget& target, size_t window, double seconds,
                               pid_t server);

}  // namespace peercache::perf
