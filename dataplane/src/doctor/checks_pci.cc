// What lies between a rail and memory: the slot, the IOMMU, the pages of engines.
#include <fmt/format.h>

#include <set>

#include "base/memory.h"
#include "base/size.h"
#include "doctor/checks.h"

namespace peercache::doctor {
namespace {

// Of what a slot carries, this much is payload, in packets of 256 bytes with headers of 24.
constexpr double kPayload = 0.91;

std::string Lanes(uint32_t lanes, double speed) {
  return fmt::format("x{} at {:g} GT/s", lanes, speed);
}

Finding SlotFinding(const rdma::Device& device, const PciLink& link) {
  double ports = 0;
  for (const rdma::Port& port : device.ports) ports += port.gbps;
  const double carries = kPayload * link.gbps();
  const std::string slot = fmt::format("{}, {:.0f} Gb/s", Lanes(link.lanes, link.speed), carries);
  if (carries < ports) {
    return {
        Grade::kWarning, device.name,
        fmt::format("its slot carries {}, its ports {:.0f}; the device could have {}: move it to "
                    "another slot, or seat it again",
                    slot, ports, Lanes(link.most_lanes, link.most_speed))};
  }
  if (link.speed < link.most_speed || link.lanes < link.most_lanes) {
    return {Grade::kNote, device.name,
            fmt::format("its slot carries {}, enough for its ports; the device could have {}", slot,
                        Lanes(link.most_lanes, link.most_speed))};
  }
  return {Grade::kOk, device.name, fmt::format("its slot carries {}", slot)};
}

// As many bytes in small pages are registered within a second, with eight devices.
constexpr uint64_t kFewInSmallPages = uint64_t{1} << 30;

// What the node that runs here knows; before there are engines, what the machine's setting means.
Findings EnginesMemory(const Facts& facts) {
  const std::string& setting = facts.shared_memory_pages;
  // Engines do not ask for huge pages (madvise), which `advise` waits for. Later it is too late:
  // they pin their pool for the GPU at once, and the kernel collapses no page that is pinned.
  const bool off = setting == "never" || setting == "deny" || setting == "advise";
  const RunningNode node = facts.running.ok() ? *facts.running : RunningNode{};
  const uint64_t small = node.engines_in_small_pages, huge = node.engines_in_huge_pages;
  const bool known = small + huge > 0;
  if (known && small < kFewInSmallPages) {
    return {
        {Grade::kOk, "engines' memory",
         fmt::format("{} in huge pages, {} in small ones", FormatSize(huge), FormatSize(small))}};
  }
  if (!known && !off) return {};
  const std::string what =
      known ? fmt::format("{} that engines share with the node here are in pages of {}",
                          FormatSize(small), FormatSize(SmallPageSize()))
            : fmt::format("host pools of engines have pages of {}", FormatSize(SmallPageSize()));
  const char* const remedy =
      off ? "`echo within_size > /sys/kernel/mm/transparent_hugepage/shmem_enabled` before they "
            "start"
          : "start the engines again: they are older than the setting, or found no free memory in "
            "one piece";
  return {{Grade::kNote, "engines' memory",
           fmt::format("{} (shmem_enabled is {}): 500Gi of them are 1Gi of tables in each device, "
                       "and minutes of registering; {}",
                       what, setting, remedy)}};
}

}  // namespace

Findings CheckPci(const Facts& facts, const Result<rdma::Selection>& rails) {
  if (!rails.ok()) return {};
  Findings findings;
  std::set<std::string> seen;
  for (const rdma::SelectedPort& rail : rails->ports) {
    const rdma::Device& device = *rail.device;
    const auto found = facts.pci.find(device.name);
    if (found == facts.pci.end() || !seen.insert(device.name).second) continue;
    const PciLink& link = found->second;
    // A virtual function does not say.
    if (link.speed > 0 && link.lanes > 0) findings.push_back(SlotFinding(device, link));
    if (link.read_request > 0 && link.read_request < 4096) {
      findings.push_back(
          {Grade::kNote, device.name,
           fmt::format(
               "it asks memory for {} bytes at once (MaxReadReq); many machines answer "
               "peers' READs faster with 4096: `setpci -s {} CAP_EXP+8.w`, bits 12 to 14 = 5",
               link.read_request, device.pci_address)});
    }
    if (link.read_request > 0 && !link.relaxed_ordering &&
        facts.config.rdma_link.relaxed_ordering) {
      findings.push_back(
          {Grade::kNote, device.name,
           fmt::format("its slot keeps writes in order (RlxdOrd-), though rdma-relaxed-ordering is "
                       "on: many machines take a third less so; `setpci -s {} "
                       "CAP_EXP+8.w=10:10`, and the option for it in the BIOS",
                       device.pci_address)});
    }
    if (link.iommu.starts_with("DMA")) {
      findings.push_back(
          {Grade::kNote, device.name,
           fmt::format("the IOMMU translates each access ({}), which costs most with small pages; "
                       "the kernel's option iommu=pt lets the host's own devices through",
                       link.iommu)});
    }
  }
  const Findings engines = EnginesMemory(facts);
  findings.insert(findings.end(), engines.begin(), engines.end());
  return findings;
}

}  // namespace peercache::doctor
