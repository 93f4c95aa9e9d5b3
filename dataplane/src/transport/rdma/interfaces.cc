#include "transport/rdma/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <sstream>

#include "base/small_file.h"

namespace peercache::rdma {
namespace {

namespace fs = std::filesystem;

// A VLAN on a bond of functions is three levels high; more means a loop.
constexpr int kMaxLevels = 8;

std::vector<std::string> Below(const std::string& path) {
  std::vector<std::string> lower;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string file = entry.path().filename();
    if (file.starts_with("lower_")) lower.push_back(file.substr(strlen("lower_")));
  }
  std::sort(lower.begin(), lower.end());
  return lower;
}

int NumaNodeOfInterface(const std::string& sysfs, const std::string& name, int levels) {
  const std::string path = sysfs + "/class/net/" + name;
  const int node = NumaNodeOfDevice(sysfs, path + "/device");
  if (node >= 0 || levels == 0) return node;
  for (const std::string& below : Below(path)) {
    if (const int found = NumaNodeOfInterface(sysfs, below, levels - 1); found >= 0) return found;
  }
  return -1;
}

// Notes members and mode of the bond that the interface is, or lies on.
void DescribeBond(const std::string& sysfs, const std::string& name, int levels,
                  Interface* interface) {
  const std::string path = sysfs + "/class/net/" + name;
  std::istringstream members(ReadSmallFile(path + "/bonding/slaves"));
  const auto count =
      static_cast<uint32_t>(std::distance(std::istream_iterator<std::string>(members), {}));
  if (count > interface->bond_members) {
    interface->bond_members = count;
    // "802.3ad 4"
    const std::string mode = ReadSmallFile(path + "/bonding/mode");
    interface->bond_mode = mode.substr(0, mode.find(' '));
  }
  if (count > 0 || levels == 0) return;
  for (const std::string& below : Below(path)) DescribeBond(sysfs, below, levels - 1, interface);
}

Address AddressOf(const sockaddr& socket_address) {
  Address address{};
  if (socket_address.sa_family == AF_INET6) {
    sockaddr_in6 ipv6;
    std::memcpy(&ipv6, &socket_address, sizeof(ipv6));
    std::memcpy(address.data(), &ipv6.sin6_addr, address.size());
  } else {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, &socket_address, sizeof(ipv4));
    address[10] = address[11] = 0xff;
    std::memcpy(address.data() + 12, &ipv4.sin_addr, 4);
  }
  return address;
}

uint8_t PrefixBits(const ifaddrs& entry) {
  if (entry.ifa_netmask == nullptr) return 0;
  sockaddr_in6 wide{};
  // The kernel leaves the family of a mask empty at times.
  const bool ipv6 = entry.ifa_addr->sa_family == AF_INET6;
  std::memcpy(&wide, entry.ifa_netmask, ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  wide.sin6_family = entry.ifa_addr->sa_family;
  const Address bits = AddressOf(reinterpret_cast<const sockaddr&>(wide));
  int count = 0;
  for (size_t i = ipv6 ? 0 : 12; i < bits.size(); ++i) count += std::popcount(bits[i]);
  return static_cast<uint8_t>(ipv6 ? count : 96 + count);
}

}  // namespace

uint8_t Interface::PrefixBitsOf(const Address& address) const {
  const auto at = static_cast<size_t>(std::find(addresses.begin(), addresses.end(), address) -
                                      addresses.begin());
  return at < addresses.size() && at < prefix_bits.size() ? prefix_bits[at] : 0;
}

std::vector<Interface> ListInterfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    spdlog::warn("the network interfaces cannot be listed: {}", std::strerror(errno));
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    auto known = std::find_if(interfaces.begin(), interfaces.end(),
                              [&](const Interface& i) { return i.name == entry->ifa_name; });
    if (known == interfaces.end()) {
      interfaces.emplace_back();
      known = interfaces.end() - 1;
      known->name = entry->ifa_name;
      known->up = (entry->ifa_flags & IFF_UP) != 0;
    }
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    known->addresses.push_back(AddressOf(*entry->ifa_addr));
    known->prefix_bits.push_back(PrefixBits(*entry));
  }
  return interfaces;
}

void DescribeInterface(const std::string& sysfs, Interface* interface) {
  interface->mtu =
      ReadNumber<uint32_t>(sysfs + "/class/net/" + interface->name + "/mtu").value_or(0);
  std::error_code error;
  interface->physical = fs::exists(sysfs + "/class/net/" + interface->name + "/device", error);
  interface->numa_node = NumaNodeOfInterface(sysfs, interface->name, kMaxLevels);
  DescribeBond(sysfs, interface->name, kMaxLevels, interface);
}

int NumaNodeOfDevice(const std::string& sysfs, const std::string& path) {
  std::error_code error;
  const fs::path root = fs::canonical(sysfs, error);
  if (error) return -1;
  fs::path device = fs::canonical(path, error);
  if (error) return -1;
  for (; device != root && device.has_relative_path(); device = device.parent_path()) {
    if (const auto node = ReadNumber<int>(device / "numa_node")) return *node;
  }
  return -1;
}

}  // namespace peercache::rdma
