// TCP ports for who listens later. A port that was bound to 0 and closed lies where the kernel
// takes ports for connections, and anybody may have it before its server does.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

#include "base/fd.h"
#include "base/small_file.h"

namespace peercache::testing {

// The same name is claimed by the tests in Python and Go, so no two processes of one network
// namespace have a port. The kernel frees it when the last copy of the socket is closed.
inline std::optional<UniqueFd> ClaimedPort(uint16_t port) {
  UniqueFd claim(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string name = "peercache-test-port-" + std::to_string(port);
  sockaddr_un of{};
  of.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), of.sun_path + 1);  // a zero before it: no file
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(claim.get(), reinterpret_cast<const sockaddr*>(&of), size) != 0) return std::nullopt;

  // Somebody who claims nothing may have it. Without SO_REUSEADDR, any socket on it is in the way.
  const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  if (bind(probe.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) {
    return std::nullopt;
  }
  return claim;
}

// A port of [first, end) that nobody else gets while this process lives; none when none is free.
inline std::optional<uint16_t> ClaimPortOf(int first, int end) {
  std::random_device random;
  const int start = std::uniform_int_distribution<int>(0, end - first - 1)(random);
  for (int n = 0; n < end - first; ++n) {
    const auto port = static_cast<uint16_t>(first + (start + n) % (end - first));
    // The claim is never closed: it ends with the process.
    if (auto claim = ClaimedPort(port)) {
      claim->Release();
      return port;
    }
  }
  return std::nullopt;
}

// One that the kernel gives to no connection: those begin at net.ipv4.ip_local_port_range, node
// ports of Kubernetes at 30000.
inline uint16_t ClaimPort() {
  constexpr int kFirst = 15'000, kEnd = 30'000;
  const int connections = ReadNumber<int>("/proc/sys/net/ipv4/ip_local_port_range").value_or(kEnd);
  // Where connections begin lower, the claim still keeps tests apart.
  const int end = connections > kFirst + 1000 ? std::min(connections, kEnd) : kEnd;
  if (const auto port = ClaimPortOf(kFirst, end)) return *port;
  std::fprintf(stderr,
               "no TCP port from %d to %d can be claimed: end the processes that listen, "
               "or raise the limit of open files\n",
               kFirst, end);
  std::abort();
}

}  // namespace peercache::testing
