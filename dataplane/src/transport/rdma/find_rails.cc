#include "transport/rdma/find_rails.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "transport/rdma/device.h"
#include "transport/rdma/verbs.h"

namespace peercache::rdma {
namespace {

// More than members of a bond that a NIC makes one device of.
constexpr uint32_t kMostQueues = 4;

RailSpec SpecOf(const SelectedPort& selected, const GidPreference& preference) {
  RailSpec rail;
  rail.name = fmt::format("{}:{}", selected.port->device, selected.port->number);
  rail.device = selected.port->device;
  rail.port = static_cast<uint8_t>(selected.port->number);
  rail.gid = preference;
  rail.numa_node = selected.port->numa_node;
  rail.queues = QueuesFor(*selected.port);
  rail.usable = selected.usable.status();
  return rail;
}

// Its port may come up, and get an address; a device that does not open, or has no such queue
// pairs, remains so.
bool MayBecomeUsable(const SelectedPort& selected) {
  return selected.device->opens.ok() && selected.device->transport == Transport::kInfiniBand &&
         selected.port->link_layer != LinkLayer::kUnknown;
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
  return RailsOf(*selection, *preference);
}

Result<std::vector<RailSpec>> RailsOf(const Selection& selection, const GidPreference& preference) {
  for (const std::string& why : selection.left_out) spdlog::info("not a rail: {}", why);
  std::vector<RailSpec> rails;
  Status failure;
  for (const SelectedPort& selected : selection.ports) {
    if (selected.usable.ok() || MayBecomeUsable(selected)) {
      rails.push_back(SpecOf(selected, preference));
      continue;
    }
    const Status& why = selected.usable.status();
    spdlog::warn("not a rail, until this node starts again: {}", why.message());
    if (failure.ok()) failure = why;
  }
  if (rails.empty() && !failure.ok()) return failure;
  return rails;
}

uint32_t QueuesFor(const Port& port) {
  uint32_t queues = port.gbps >= 800 ? 4 : port.gbps >= 400 ? 2 : 1;
  for (const Interface& interface : port.interfaces)
    queues = std::max(queues, std::min(interface.bond_members, kMostQueues));
  // A pod with an interface of its own does not see the machine's bond; the driver names its device
  // so.
  if (port.device.find("_bond_") != std::string::npos) queues = std::max(queues, 2u);
  return queues;
}

Status AnyUsable(std::span<const RailSpec> rails) {
  const bool any =
      std::any_of(rails.begin(), rails.end(), [](const RailSpec& r) { return r.usable.ok(); });
  return any || rails.empty() ? Status() : rails.front().usable;
}

}  // namespace peercache::rdma
