// Libraries, devices, ports, GIDs, MTUs, GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "base/size.h"
#include "doctor/checks.h"
#include "transport/rdma/find_rails.h"
#include "transport/rdma/mtu.h"

namespace peercache::doctor {
namespace {

using rdma::SelectedPort;
using rdma::Selection;

// Of what keeps this node from using RDMA.
Grade Severity(const Facts& facts) {
  if (facts.config.transport == "rdma") return Grade::kFault;
  if (facts.config.transport == "tcp") return Grade::kNote;
  const bool meant = !facts.config.device_name.empty() ||
                     std::any_of(facts.devices.begin(), facts.devices.end(),
                                 [](const rdma::Device& d) { return !d.software(); });
  return meant ? Grade::kWarning : Grade::kNote;
}

void CheckLimits(const Facts& facts, const SelectedPort& rail, Findings* findings) {
  const uint64_t largest = rail.device->limits.max_mr_size;
  if (largest == 0 || facts.config.pool_bytes <= largest) return;
  const uint64_t pieces = (facts.config.pool_bytes + largest - 1) / largest;
  // Engines' host pools need registrations, too.
  const bool scarce = pieces > rail.device->limits.max_mr / 2;
  findings->push_back(
      {scarce ? Grade::kWarning : Grade::kNote, rail.device->name,
       fmt::format("a registration has at most {}: the pool of {} takes {} of {}{}",
                   FormatSize(largest), FormatSize(facts.config.pool_bytes), pieces,
                   rail.device->limits.max_mr, scarce ? "; choose a smaller pool" : "")});
}

// Whether two ports carry a virtual function's packets (VF-LAG). The kernel's driver then makes one
// RDMA device for both, and names it so; a bond alone does not make it.
void CheckUplink(const Uplink& uplink, const std::string& name, Findings* findings) {
  const auto lag =
      std::find_if(uplink.devices.begin(), uplink.devices.end(),
                   [](const auto& device) { return device.starts_with("mlx5_bond_"); });
  const std::string seen =
      fmt::format("{}{}{}", fmt::join(uplink.devices, ", "),
                  uplink.devices.empty() || uplink.interfaces.empty() ? "" : ", ",
                  fmt::join(uplink.interfaces, ", "));
  std::string text = fmt::format("a virtual function of {}", uplink.function);
  if (lag != uplink.devices.end()) {
    text += fmt::format(", under LAG ({}): both ports carry it", *lag);
  } else if (!uplink.interfaces.empty() && !uplink.bonded) {
    text += fmt::format(", not under LAG ({} is in no bond): one port carries it", seen);
  } else if (!uplink.devices.empty()) {
    text += fmt::format(", not under LAG by the names of devices ({}): one port carries it", seen);
  } else {
    text +=
        "; whether under LAG is not to be seen from here: then the machine has a device "
        "mlx5_bond_0 "
        "(ls /sys/class/infiniband)";
  }
  findings->push_back({Grade::kNote, name, text});
}

// Both ports of a bond carry pages only when a node has queue pairs on each.
void CheckBond(const Facts& facts, const rdma::Port& port, Findings* findings) {
  for (const rdma::Interface& interface : port.interfaces) {
    if (interface.bond_members == 0) continue;
    const uint32_t asked = facts.config.rdma_link.queues;
    const uint32_t queues = asked == 0 ? rdma::QueuesFor(port) : asked;
    const bool few = queues < interface.bond_members;
    findings->push_back(
        {few ? Grade::kWarning : Grade::kNote, port.Name(),
         fmt::format("{} lies on a bond of {} members ({}); towards a peer it has {} queue pairs, "
                     "each of which stays on one member{}",
                     interface.name, interface.bond_members,
                     interface.bond_mode.empty() ? "mode not known" : interface.bond_mode, queues,
                     few ? "; write rdma-queues auto" : "")});
    return;
  }
}

// The counters are of all traffic since the driver was loaded: a hint where to look, no fault.
void CheckLosses(const Facts& facts, const std::string& name, Findings* findings) {
  const auto found = facts.losses.find(name);
  if (found == facts.losses.end() || found->second.empty()) return;
  std::vector<std::string> counted;
  for (const auto& [counter, count] : found->second)
    counted.push_back(fmt::format("{} {}", counter, count));
  findings->push_back(
      {Grade::kNote, name,
       fmt::format("packets came late or not at all since its driver was loaded: {}; check whether "
                   "these grow under load, then PFC, ECN and MTU of the path (docs/rdma.md)",
                   fmt::join(counted, ", "))});
}

void CheckRail(const Facts& facts, const SelectedPort& rail, Findings* findings) {
  const std::string name = rail.port->Name();
  if (!rail.usable.ok()) {
    findings->push_back({Severity(facts), name, rail.usable.status().message()});
    return;
  }
  const rdma::Gid& gid = rail.usable->gid;
  findings->push_back(
      {Grade::kOk, name, fmt::format("GID {}: {}", rdma::FormatGid(gid), rail.usable->why)});
  if (rail.device->software()) {
    findings->push_back(
        {Grade::kNote, name,
         "a device in software: for tests, TCP is faster; transport tcp leaves it"});
  }
  if (const rdma::Interface* interface = rail.port->FindInterface(gid.interface)) {
    if (const auto mtu = rdma::CheckMtu(*rail.port, *interface))
      findings->push_back({mtu->fault ? Grade::kFault : Grade::kWarning, name, mtu->text});
  }
  if (const auto uplink = facts.uplinks.find(rail.device->name); uplink != facts.uplinks.end())
    CheckUplink(uplink->second, name, findings);
  CheckBond(facts, *rail.port, findings);
  CheckLosses(facts, name, findings);
  CheckLimits(facts, rail, findings);
  if (const Status& paging = rail.device->limits.on_demand_paging;
      facts.config.rdma_link.on_demand_paging && !paging.ok()) {
    findings->push_back({Grade::kWarning, rail.device->name,
                         fmt::format("rdma-odp is on, but {}: memory is locked; turn rdma-odp off, "
                                     "or name other devices (device-name)",
                                     paging.message())});
  }
}

}  // namespace

Result<Selection> ChooseRails(const Facts& facts) {
  if (facts.config.transport == "tcp") return Unavailable("transport is tcp: RDMA is not used");
  const auto list = rdma::ParseDeviceList(facts.config.device_name);
  if (!list.ok()) return list.status().Annotate("device-name");
  const auto gid = rdma::ParseGidPreference(facts.config.rdma_gid);
  if (!gid.ok()) return gid.status().Annotate("rdma-gid");
  return rdma::SelectPorts(facts.devices, *list, *gid);
}

Findings CheckRails(const Facts& facts, const Result<Selection>& rails) {
  Findings findings;
  if (facts.verbs.ok())
    findings.push_back({Grade::kOk, "libibverbs", "it loads"});
  else
    findings.push_back({Severity(facts), "libibverbs", facts.verbs.message()});
  if (!rails.ok()) {
    findings.push_back({Severity(facts), "transport",
                        facts.config.transport == "auto"
                            ? "pages travel over TCP: " + rails.status().message()
                            : rails.status().message()});
    return findings;
  }
  for (const SelectedPort& rail : rails->ports) CheckRail(facts, rail, &findings);
  for (const std::string& why : rails->left_out)
    findings.push_back({Grade::kNote, "left out", why});
  return findings;
}

Findings CheckClasses(const Facts& facts) {
  if (!facts.running.ok() || facts.running->class_mismatch.empty()) return {};
  return {{Grade::kWarning, "traffic class",
           "the node that runs here: " + facts.running->class_mismatch}};
}

Findings CheckGpu(const Facts& facts, const Result<Selection>& rails) {
  if (facts.gpu.driver.empty()) return {};
  if (!rails.ok()) return {{Grade::kNote, "GPUDirect", "there are no rails to read through"}};
  const bool dmabuf = std::all_of(
      rails->ports.begin(), rails->ports.end(),
      [](const SelectedPort& rail) { return rail.device->dmabuf == rdma::Support::kYes; });
  if (dmabuf && facts.gpu.open_modules)
    return {{Grade::kOk, "GPUDirect", "by dmabuf: devices and NVIDIA's driver have it"}};
  if (facts.gpu.peermem) {
    return {{Grade::kOk, "GPUDirect",
             "by nvidia-peermem, for nodes that run in the engine's process (embedded)"}};
  }
  return {{Grade::kNote, "GPUDirect",
           fmt::format("pages go through host memory: {}; or, for an embedded node, load "
                       "nvidia-peermem (modprobe nvidia-peermem)",
                       dmabuf ? "dmabuf needs NVIDIA's open kernel modules (nvidia-open)"
                              : "not every rail's driver has dmabuf (Linux 5.12 and rdma-core 34 "
                                "brought it)")}};
}

}  // namespace peercache::doctor
