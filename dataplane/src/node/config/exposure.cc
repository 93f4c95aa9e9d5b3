#include "node/config/exposure.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace peercache {
namespace {

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

bool PeersProve(const NodeConfig& config) {
  return !config.auth_token_file.empty() || config.tls();
}

}  // namespace

bool BindsAll(const NodeConfig& config) {
  return config.bind_addr == "0.0.0.0" || config.bind_addr == "::";
}

std::string OwnAddress(const NodeConfig& config) {
  return BindsAll(config) ? std::string("127.0.0.1") : config.bind_addr;
}

Result<std::string> PeerBindAddress(const NodeConfig& config, std::span<const HostPort> discovery) {
  if (PeersProve(config) || config.insecure_peers) return config.bind_addr;
  const bool any = BindsAll(config);
  // What says that the node is to be reached from elsewhere, and where it says so.
  std::vector<std::pair<const char*, std::string>> named;
  if (!any) named.emplace_back("bind-addr", config.bind_addr);
  if (!config.advertise_addr.empty()) named.emplace_back("advertise-addr", config.advertise_addr);
  for (const HostPort& entry : discovery) named.emplace_back("discovery-addr", entry.host);
  for (const auto& [option, host] : named) {
    if (IsLoopback(host)) continue;
    return InvalidArgument(fmt::format(
        "{}: \"{}\" is not of this machine alone, and without a secret everybody who reaches the "
        "peer port reads and clears pages; write one (openssl rand -hex 32), give it to all nodes "
        "as auth-token-file, or set insecure-peers to on where only members reach the port",
        option, host));
  }
  if (!any) return config.bind_addr;
  const auto is_v6 = [](const std::string& host) { return host.find(':') != std::string::npos; };
  const bool v6 = is_v6(config.advertise_addr) ||
                  std::any_of(discovery.begin(), discovery.end(),
                              [&](const HostPort& entry) { return is_v6(entry.host); });
  return std::string(v6 ? "::1" : "127.0.0.1");
}

}  // namespace peercache
