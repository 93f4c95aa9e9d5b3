#include "node/transport_choice.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <vector>

#include "transport/rdma/choose_gid.h"
#include "transport/rdma/device.h"
#include "transport/rdma/mtu.h"
#include "transport/rdma/select_ports.h"

namespace peercache {
namespace {

using rdma::Device;
using rdma::Interface;
using rdma::Port;

// What ports in one network have in common (QueueAddress::network).
std::array<uint8_t, 16> NetworkOf(const Port& port, const rdma::Gid& gid) {
  std::array<uint8_t, 16> network = gid.address;
  uint8_t bits = 64;  // InfiniBand: the subnet prefix
  if (port.link_layer == rdma::LinkLayer::kEthernet) {
    const Interface* interface = port.FindInterface(gid.interface);
    bits = interface == nullptr ? 0 : interface->PrefixBitsOf(gid.address);
    if (bits == 0) return {};
  }
  for (size_t bit = bits; bit < 128; ++bit)
    network[bit / 8] = static_cast<uint8_t>(network[bit / 8] & ~(0x80u >> bit % 8));
  return network;
}

}  // namespace

FoundRails FindRails(const NodeConfig& config) {
  if (config.transport == "tcp") return Unavailable("TCP, as configured");
  const auto list = rdma::ParseDeviceList(config.device_name);
  if (!list.ok()) return list.status().Annotate("device-name");
  const auto preference = rdma::ParseGidPreference(config.rdma_gid);
  if (!preference.ok()) return preference.status().Annotate("rdma-gid");
  if (const auto verbs = rdma::Verbs::Load(); !verbs.ok()) return verbs.status();
  const std::vector<Device> devices = rdma::ReadDevices(rdma::SystemSources());
  auto selection = rdma::SelectPorts(devices, *list, *preference);
  if (!selection.ok()) return selection.status();
  for (const std::string& why : selection->left_out) spdlog::info("not a rail: {}", why);
  std::vector<rdma::RailSpec> rails;
  for (const auto& [device, port, usable] : selection->ports) {
    if (!usable.ok()) return usable.status();
    rdma::RailSpec rail;
    rail.name = fmt::format("{}:{}", device->name, port->number);
    rail.device = device->name;
    rail.port = static_cast<uint8_t>(port->number);
    rail.gid_index = static_cast<uint8_t>(usable->gid.index);
    rail.network = NetworkOf(*port, usable->gid);
    rail.numa_node = port->numa_node;
    spdlog::info("rail {}: GID {}, {}", rail.name, rdma::FormatGid(usable->gid), usable->why);
    if (const Interface* interface = port->FindInterface(usable->gid.interface)) {
      if (const auto finding = rdma::CheckMtu(*port, *interface))
        spdlog::warn("rail {}: {}", rail.name, finding->text);
    }
    rails.push_back(std::move(rail));
  }
  return rails;
}

Result<Transport> OpenFabric(const NodeConfig& config, const FoundRails& rails,
                             std::span<std::byte> pool) {
  if (config.transport == "tcp") return Transport{nullptr, rails.status().message()};
  auto fabric = rails.ok() ? Fabric::Open(config, *rails, pool)
                           : Result<std::unique_ptr<Fabric>>(rails.status());
  if (fabric.ok()) {
    return Transport{
        std::move(*fabric),
        fmt::format("RDMA over {} rails, TCP where that does not reach", rails->size())};
  }
  if (config.transport == "rdma") return fabric.status();
  Transport tcp{nullptr, fmt::format("TCP, as RDMA cannot be used: {}", fabric.status().message())};
  // Whoever names a device expects it to be used.
  spdlog::log(config.device_name.empty() ? spdlog::level::info : spdlog::level::warn,
              "transport: {}", tcp.why);
  return tcp;
}

}  // namespace peercache
