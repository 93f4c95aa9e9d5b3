#include "transport/rdma/mtu.h"

#include <fmt/format.h>

#include <algorithm>

namespace peercache::rdma {
namespace {

// What a RoCEv2 packet carries besides the payload, inside the frame. Of a READ's answer at least
// IPv4 20 + UDP 8 + BTH 12 + AETH 4 + ICRC 4 ...
constexpr uint32_t kLeastHeaders = 48;
// ... and what the kernel leaves room for when it derives the RDMA MTU from the interface's:
// GRH 40 + UDP 8 + BTH 12 + XRC 4 + AtomicETH 28 + ICRC 4.
constexpr uint32_t kReservedHeaders = 96;
constexpr uint32_t kLargest = 4096;

// The RDMA MTU that the kernel derives from an interface's.
uint32_t Derived(uint32_t interface_mtu) {
  uint32_t mtu = kLargest;
  while (mtu > 256 && mtu + kReservedHeaders > interface_mtu) mtu /= 2;
  return mtu;
}

}  // namespace

std::optional<MtuFinding> CheckMtu(const Port& port, const Interface& interface) {
  if (port.link_layer != LinkLayer::kEthernet || port.active_mtu == 0 || interface.mtu == 0)
    return std::nullopt;
  if (port.active_mtu + kLeastHeaders > interface.mtu) {
    return MtuFinding{
        interface.physical,
        fmt::format(
            "{}: packets of {} bytes do not fit {}'s MTU of {}: large READs time out{}; set "
            "its MTU, and that of the switches, to 9000 (at least {})",
            port.Name(), port.active_mtu, interface.name, interface.mtu,
            interface.physical ? "" : ", unless the interface below it has a larger one",
            port.active_mtu + kReservedHeaders)};
  }
  const uint32_t best = port.max_mtu == 0 ? kLargest : std::min(port.max_mtu, kLargest);
  if (port.active_mtu >= best) return std::nullopt;
  if (port.active_mtu < std::min(best, Derived(interface.mtu))) {
    return MtuFinding{
        false, fmt::format("{}: RDMA MTU {} although {}'s MTU of {} allows {}: set {} down and up "
                           "again, then restart the node",
                           port.Name(), port.active_mtu, interface.name, interface.mtu,
                           std::min(best, Derived(interface.mtu)), interface.name)};
  }
  return MtuFinding{
      false, fmt::format("{}: {}'s MTU of {} limits RDMA packets to {} of {} bytes: set the MTU of "
                         "all hosts and switches of this fabric to 9000 (at least {})",
                         port.Name(), interface.name, interface.mtu, port.active_mtu, best,
                         best + kReservedHeaders)};
}

}  // namespace peercache::rdma
