// GIDs and the addresses they are made of. A RoCEv2 GID is an IP address of a network interface:
// an IPv6 address as it is, an IPv4 address as ::ffff:a.b.c.d. Both kinds are kept in this form.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace peercache::rdma {

using Address = std::array<uint8_t, 16>;  // network byte order

bool IsIpv4(const Address& address);       // ::ffff:0:0/96
bool IsLinkLocal(const Address& address);  // fe80::/10
// "10.0.0.1" or "fe80::1".
std::string FormatAddress(const Address& address);
Result<Address> ParseAddress(const std::string& text);

enum class GidType : uint8_t { kUnknown, kInfiniBand, kRoceV1, kRoceV2 };
const char* GidTypeName(GidType type);

struct Gid {
  uint32_t index = 0;  // in the port's table; changes when addresses come and go
  Address address{};
  GidType type = GidType::kUnknown;
  std::string interface;  // whose address it is; empty on InfiniBand
};
std::string FormatGid(const Gid& gid);  // "3 (10.0.0.1, RoCEv2, eth1)"

}  // namespace peercache::rdma
