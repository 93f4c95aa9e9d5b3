// Sockets of the peer protocol: options, connecting, listening, addresses.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace peercache {

// Starts a non-blocking connect to a numeric IPv4 or IPv6 address.
Result<UniqueFd> StartConnect(const std::string& host, uint16_t port);

struct Listener {
  UniqueFd fd;
  uint16_t port = 0;  // the bound one
};
// Listens on a numeric address; port 0 takes a free one.
Result<Listener> Listen(const std::string& host, uint16_t port);

// What sends the pages: the congestion control of `socket`, or of what a listener accepts. "auto"
// leaves what the host is set to, unless that is BBR: it paces by timers, which between nodes of
// one network takes half of the throughput and of the cores; then it is CUBIC. Anything else is a
// name of net.ipv4.tcp_allowed_congestion_control. Returns what is in effect.
Result<std::string> SetCongestion(int socket, const std::string& wanted);

struct HostPort {
  std::string host;
  uint16_t port = 0;
};
// "host:port[,host:port...]", IPv6 hosts in brackets.
Result<std::vector<HostPort>> ParseHostPorts(const std::string& text);
// All numeric addresses of a name, deduplicated, sorted. Blocks in the resolver.
Result<std::vector<std::string>> Resolve(const std::string& host);
// Whether a numeric address belongs to an interface of this host.
bool IsLocalAddress(const std::string& address);
// Whether an accepted connection comes from this machine (network namespace): from 127.0.0.1 or
// ::1, or from the very address that it has dialled. From other loopback addresses come proxies of
// a service mesh, which ask for others: Istio's from 127.0.0.6.
bool FromOwnMachine(const sockaddr* peer, const sockaddr* local);
bool FromOwnMachine(int connection);
// The numeric address this host would use to reach `host`; empty when there is no route.
std::string LocalAddressTowards(const std::string& host, uint16_t port);

}  // namespace peercache
