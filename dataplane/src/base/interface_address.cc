#include "base/interface_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <set>
#include <vector>

namespace peercache {
namespace {

constexpr uint32_t kLinkLocalV4 = 0xa9fe;  // 169.254.0.0/16

}  // namespace

std::string AddressText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
              sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    // What a socket for both families calls ::ffff:a.b.c.d.
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      inet_ntop(AF_INET, v6.s6_addr + 12, text, sizeof(text));
    } else {
      inet_ntop(AF_INET6, &v6, text, sizeof(text));
    }
  }
  return text;
}

bool IsAddress(const std::string& text) {
  in6_addr any{};
  return inet_pton(AF_INET, text.c_str(), &any) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &any) == 1;
}

Result<std::string> InterfaceAddress(const std::string& name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return FromErrno("listing interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::set<std::string> names;
  std::vector<std::string> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    names.insert(entry->ifa_name);
    if (name != entry->ifa_name || entry->ifa_addr == nullptr) continue;
    std::string address = AddressText(entry->ifa_addr);
    if (!address.empty()) addresses.push_back(std::move(address));
  }
  if (!names.contains(name)) {
    return InvalidArgument(fmt::format(
        "there is no interface \"{}\": name one of {}, or attach the network that brings it", name,
        fmt::join(names, ", ")));
  }
  std::string address = AddressForOthers(addresses);
  if (address.empty()) {
    return InvalidArgument(
        fmt::format("interface \"{}\" has no address that others could reach: give it one", name));
  }
  return address;
}

std::string AddressForOthers(std::span<const std::string> addresses) {
  std::string v6_found;
  for (const std::string& address : addresses) {
    in_addr v4{};
    in6_addr v6{};
    if (inet_pton(AF_INET, address.c_str(), &v4) == 1) {
      if (ntohl(v4.s_addr) >> 16 != kLinkLocalV4) return address;
    } else if (v6_found.empty() && inet_pton(AF_INET6, address.c_str(), &v6) == 1 &&
               !IN6_IS_ADDR_LINKLOCAL(&v6)) {
      v6_found = address;
    }
  }
  return v6_found;
}

}  // namespace peercache
