#include "transport/rdma/gid.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace peercache::rdma {
namespace {

constexpr std::array<uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

bool IsIpv4(const Address& address) {
  return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), address.begin());
}

bool IsLinkLocal(const Address& address) {
  return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

std::string FormatAddress(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (IsIpv4(address))
    inet_ntop(AF_INET, address.data() + kMappedPrefix.size(), text, sizeof(text));
  else
    inet_ntop(AF_INET6, address.data(), text, sizeof(text));
  return text;
}

Result<Address> ParseAddress(const std::string& text) {
  Address address{};
  if (inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), address.begin());
  if (inet_pton(AF_INET, text.c_str(), address.data() + kMappedPrefix.size()) == 1) return address;
  return InvalidArgument(fmt::format("\"{}\" is not an IPv4 or IPv6 address", text));
}

const char* GidTypeName(GidType type) {
  switch (type) {
    case GidType::kInfiniBand: return "InfiniBand";
    case GidType::kRoceV1: return "RoCEv1";
    case GidType::kRoceV2: return "RoCEv2";
    case GidType::kUnknown: break;
  }
  return "unknown type";
}

std::string FormatGid(const Gid& gid) {
  return fmt::format("{} ({}, {}{}{})", gid.index, FormatAddress(gid.address),
                     GidTypeName(gid.type), gid.interface.empty() ? "" : ", ", gid.interface);
}

}  // namespace peercache::rdma
