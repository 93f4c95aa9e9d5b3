// RailAddress: as whom a rail speaks. A RoCE port's addresses come and go with those of its network
// interface, a subnet manager changes the LIDs of InfiniBand: so a rail looks again, and chooses
// again.
//
//   RailLook look = LookAt(port, spec.gid, &present);
//   if (!look.address.ok()) ...                       // what it waits for, with the remedy
//
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "transport/rdma/choose_gid.h"
#include "transport/rdma/device.h"
#include "wire/fabric.h"

namespace peercache::rdma {

struct RailAddress {
  Gid gid;
  std::array<uint8_t, 16> network{};  // QueueAddress::network
  uint16_t lid = 0;
  uint8_t mtu = 0;  // ibv_mtu of the port
  bool ethernet = false;
  // Grows when any of the above but the MTU changes; what was connected before is of no use then.
  uint32_t epoch = 0;
  std::string why;      // it was chosen
  std::string warning;  // what is wrong with it all the same; may be empty

  // The port as peers address it; queue and sequence are left to the queue pair.
  QueueAddress ForPeers() const;
  // To peers it is the same port, and here the same entry of the port's table.
  bool SameAs(const RailAddress& other) const;
};

enum class WaitsFor : uint8_t { kNothing, kPort, kAddress, kDevice };
const char* WaitsForName(WaitsFor what);  // "port"; empty for kNothing

struct RailLook {
  Result<RailAddress> address;
  WaitsFor waits_for = WaitsFor::kNothing;  // when there is none
};

// `present`: the address it has, if any; kept as long as there is none better.
RailLook LookAt(const Port& port, const GidPreference& preference, const Address* present);

}  // namespace peercache::rdma
