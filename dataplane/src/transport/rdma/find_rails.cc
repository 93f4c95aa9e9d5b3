#include "transport/rdma/find_rails.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "transport/rdma/choose_gid.h"
#include "transport/rdma/device.h"
#include "transport/rdma/mtu.h"
#include "transport/rdma/verbs.h"

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

RailSpec SpecOf(const Port& port, const ChosenGid& chosen) {
  RailSpec rail;
  rail.name = fmt::format("{}:{}", port.device, port.number);
  rail.device = port.device;
  rail.interface = chosen.gid.interface;
  rail.port = static_cast<uint8_t>(port.number);
  rail.gid_index = static_cast<uint8_t>(chosen.gid.index);
  rail.network = NetworkOf(port, chosen.gid);
  rail.numa_node = port.numa_node;
  spdlog::info("rail {}: GID {}, {}", rail.name, FormatGid(chosen.gid), chosen.why);
  if (const Interface* interface = port.FindInterface(rail.interface)) {
    if (const auto finding = CheckMtu(port, *interface))
      spdlog::warn("rail {}: {}", rail.name, finding->text);
  }
  return rail;
}

}  // namespace

Result<std::vector<RailSpec>> FindRails(const std::string& devices, const std::string& gid) {
  const auto list = ParseDeviceList(devices);
  if (!list.ok()) return list.status();
  const auto preference = ParseGidPreference(gid);
  if (!preference.ok()) return preference.status();
  if (const auto verbs = Verbs::Load(); !verbs.ok()) return verbs.status();
  const std::vector<Device> found = ReadDevices(SystemSources());
  const auto selection = SelectPorts(found, *list, *preference);
  if (!selection.ok()) return selection.status();
  return RailsOf(*selection);
}

Result<std::vector<RailSpec>> RailsOf(const Selection& selection) {
  for (const std::string& why : selection.left_out) spdlog::info("not a rail: {}", why);
  std::vector<RailSpec> rails;
  Status failure;
  for (const auto& [device, port, usable] : selection.ports) {
    if (usable.ok()) {
      rails.push_back(SpecOf(*port, *usable));
      continue;
    }
    spdlog::warn("not a rail, until this node starts again: {}", usable.status().message());
    if (failure.ok()) failure = usable.status();
  }
  if (rails.empty() && !failure.ok()) return failure;
  return rails;
}

}  // namespace peercache::rdma
