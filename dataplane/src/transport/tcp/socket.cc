#include "transport/tcp/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/interface_address.h"

namespace peercache {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

Result<Address> Numeric(const std::string& host, uint16_t port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof(sockaddr_in);
    return address;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.size = sizeof(sockaddr_in6);
    return address;
  }
  return InvalidArgument(fmt::format("\"{}\" is not a numeric IPv4 or IPv6 address", host));
}

// IPv4 as ::ffff:a.b.c.d; empty: of another family.
std::optional<in6_addr> InternetAddress(const sockaddr* address) {
  in6_addr v6{};
  if (address->sa_family == AF_INET) {
    v6.s6_addr[10] = v6.s6_addr[11] = 0xff;
    std::memcpy(v6.s6_addr + 12, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  } else {
    return std::nullopt;
  }
  return v6;
}

void SetOption(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof(value));
}

}  // namespace

Result<UniqueFd> StartConnect(const std::string& host, uint16_t port) {
  auto address = Numeric(host, port);
  if (!address.ok()) return address.status();
  UniqueFd fd(socket(address->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return FromErrno("socket", errno);
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  if (connect(fd.get(), address->get(), address->size) != 0 && errno != EINPROGRESS) {
    return FromErrno(fmt::format("connecting to {}:{}", host, port), errno);
  }
  return fd;
}

Result<Listener> Listen(const std::string& host, uint16_t port) {
  const bool both = host == "::";
  auto address = Numeric(host, port);
  if (!address.ok()) return address.status().Annotate("--bind-addr");
  UniqueFd fd(socket(address->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // A kernel that was started without IPv6.
  if (!fd && both && errno == EAFNOSUPPORT) return Listen("0.0.0.0", port);
  if (!fd) return FromErrno("socket", errno);
  if (both) SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(fd.get(), address->get(), address->size) != 0) {
    return FromErrno(fmt::format("binding {}:{}; choose a free port", host, port), errno);
  }
  if (listen(fd.get(), 1024) != 0)
    return FromErrno(fmt::format("listening at {}:{}", host, port), errno);
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return FromErrno("getsockname", errno);
  }
  Listener listener;
  listener.fd = std::move(fd);
  listener.port =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
  return listener;
}

Result<std::string> SetCongestion(int socket, const std::string& wanted) {
  const auto set = [socket](const std::string& name) {
    return setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
  };
  if (wanted != "auto") {
    if (set(wanted)) return wanted;
    return FromErrno(
        fmt::format(
            "\"{}\"; use auto, or one that `sysctl net.ipv4.tcp_allowed_congestion_control` "
            "names (others need CAP_NET_ADMIN)",
            wanted),
        errno);
  }
  char name[16] = {};  // TCP_CA_NAME_MAX
  socklen_t size = sizeof(name);
  if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0)
    return FromErrno("reading it", errno);
  const std::string found(name, strnlen(name, size));
  // Where CUBIC is missing, the host's stays.
  return found.starts_with("bbr") && set("cubic") ? "cubic" : found;
}

Result<std::vector<HostPort>> ParseHostPorts(const std::string& text) {
  std::vector<HostPort> all;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    const size_t colon = item.rfind(':');
    HostPort parsed;
    unsigned port = 0;
    if (colon != std::string::npos) {
      parsed.host = item.substr(0, colon);
      const char* first = item.data() + colon + 1;
      const char* last = item.data() + item.size();
      const auto [rest, error] = std::from_chars(first, last, port);
      if (error != std::errc() || rest != last) port = 0;
    }
    if (parsed.host.size() >= 2 && parsed.host.front() == '[' && parsed.host.back() == ']') {
      parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
    }
    if (parsed.host.empty() || port == 0 || port > 65535) {
      return InvalidArgument(fmt::format(
          "\"{}\" is not host:port (port 1 to 65535); write e.g. 10.0.0.1:31998 or [fd00::1]:31998",
          item));
    }
    parsed.port = static_cast<uint16_t>(port);
    all.push_back(std::move(parsed));
  }
  return all;
}

Result<std::vector<std::string>> Resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return Unavailable(fmt::format("resolving {}: {}", host, gai_strerror(error)));
  }
  std::vector<std::string> addresses;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next)
    addresses.push_back(AddressText(a->ai_addr));
  freeaddrinfo(found);
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

bool IsLocalAddress(const std::string& address) {
  auto numeric = Numeric(address, 0);
  if (!numeric.ok()) return false;
  // Binding succeeds exactly for addresses of this host.
  UniqueFd fd(socket(numeric->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd && bind(fd.get(), numeric->get(), numeric->size) == 0;
}

bool FromOwnMachine(const sockaddr* peer, const sockaddr* local) {
  const auto from = InternetAddress(peer), to = InternetAddress(local);
  if (!from || !to) return false;
  in6_addr loopback{};  // ::ffff:127.0.0.1
  loopback.s6_addr[10] = loopback.s6_addr[11] = 0xff;
  loopback.s6_addr[12] = 127;
  loopback.s6_addr[15] = 1;
  return IN6_IS_ADDR_LOOPBACK(&*from) || IN6_ARE_ADDR_EQUAL(&*from, &loopback) ||
         IN6_ARE_ADDR_EQUAL(&*from, &*to);
}

bool FromOwnMachine(int connection) {
  sockaddr_storage peer{}, local{};
  socklen_t peer_size = sizeof(peer), local_size = sizeof(local);
  return getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
         getsockname(connection, reinterpret_cast<sockaddr*>(&local), &local_size) == 0 &&
         FromOwnMachine(reinterpret_cast<const sockaddr*>(&peer),
                        reinterpret_cast<const sockaddr*>(&local));
}

std::string LocalAddressTowards(const std::string& host, uint16_t port) {
  auto numeric = Numeric(host, port);
  if (!numeric.ok()) return {};
  UniqueFd fd(socket(numeric->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || connect(fd.get(), numeric->get(), numeric->size) != 0) return {};
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) return {};
  return AddressText(reinterpret_cast<const sockaddr*>(&local));
}

}  // namespace peercache
