#include "transport/rdma/rail_address.h"

#include "transport/rdma/mtu.h"

namespace peercache::rdma {
namespace {

// What ports in one network have in common (QueueAddress::network).
std::array<uint8_t, 16> NetworkOf(const Port& port, const Gid& gid) {
  std::array<uint8_t, 16> network = gid.address;
  uint8_t bits = 64;  // InfiniBand: the subnet prefix
  if (port.link_layer == LinkLayer::kEthernet) {
    const Interface* interface = port.FindInterface(gid.interface);
    bits = interface == nullptr ? 0 : interface->PrefixBitsOf(gid.address);
    if (bits == 0) return {};
  }
  for (size_t bit = bits; bit < 128; ++bit)
    network[bit / 8] = static_cast<uint8_t>(network[bit / 8] & ~(0x80u >> bit % 8));
  return network;
}

}  // namespace

QueueAddress RailAddress::ForPeers() const {
  QueueAddress address;
  address.gid = gid.address;
  address.network = network;
  address.lid = lid;
  address.mtu = mtu;
  address.ethernet = ethernet;
  return address;
}

bool RailAddress::SameAs(const RailAddress& other) const {
  return gid.index == other.gid.index && gid.address == other.gid.address &&
         network == other.network && lid == other.lid && ethernet == other.ethernet;
}

const char* WaitsForName(WaitsFor what) {
  switch (what) {
    case WaitsFor::kPort: return "port";
    case WaitsFor::kAddress: return "address";
    case WaitsFor::kDevice: return "device";
    case WaitsFor::kNothing: break;
  }
  return "";
}

RailLook LookAt(const Port& port, const GidPreference& preference, const Address* present) {
  if (Status s = CheckActive(port); !s.ok()) return {std::move(s), WaitsFor::kPort};
  auto chosen = ChooseGid(port, preference, present);
  if (!chosen.ok()) return {chosen.status(), WaitsFor::kAddress};
  RailAddress address;
  address.network = NetworkOf(port, chosen->gid);
  address.lid = port.lid;
  address.ethernet = port.link_layer == LinkLayer::kEthernet;
  if (const Interface* interface = port.FindInterface(chosen->gid.interface)) {
    if (const auto finding = CheckMtu(port, *interface)) address.warning = finding->text;
  }
  address.gid = std::move(chosen->gid);
  address.why = std::move(chosen->why);
  return {std::move(address)};
}

}  // namespace peercache::rdma
