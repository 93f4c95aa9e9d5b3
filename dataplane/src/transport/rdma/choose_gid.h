// Which GID of a port a rail uses, and whether the port can be used at all. Pure.
//
// By address, never by index: the table is filled in the order in which addresses came, so the same
// index is another address, or another RoCE version, on the next machine or after the next change.
#pragma once

#include <string>

#include "base/status.h"
#include "transport/rdma/device.h"

namespace peercache::rdma {

struct GidPreference {
  enum class Family : uint8_t { kAny, kIpv4, kIpv6 };
  Family family = Family::kAny;
  // The first prefix_bits of the address; 0: any. One subnet serves the configuration of all nodes.
  Address subnet{};
  uint8_t prefix_bits = 0;
};
// auto | ipv4 | ipv6 | an address | a subnet such as 10.1.0.0/16
Result<GidPreference> ParseGidPreference(const std::string& text);

struct ChosenGid {
  Gid gid;
  std::string why;  // for the log and for people: "RoCEv2, address of eth1, IPv4 before IPv6"
};

// On Ethernet a RoCEv2 GID that is an address of its interface here: IPv4, then global IPv6, then
// link-local; of equals `present`, if it is one of them: every change costs connections. On
// InfiniBand the first GID, as packets go by LID.
Result<ChosenGid> ChooseGid(const Port& port, const GidPreference& preference,
                            const Address* present = nullptr);

// What a port needs besides a GID: to be active. The error names the fix.
Status CheckActive(const Port& port);

// ChooseGid, and everything else that a rail needs: the device opens, its transport can do it, the
// port is up. The error names the fix.
Result<ChosenGid> CheckUsable(const Device& device, const Port& port,
                              const GidPreference& preference);

}  // namespace peercache::rdma
