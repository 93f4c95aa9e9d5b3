#include "doctor/doctor.h"

#include <fmt/format.h>

#include <cstdio>
#include <iterator>

#include "base/cpu_list.h"
#include "base/size.h"
#include "doctor/checks.h"
#include "doctor/gather.h"
#include "doctor/reach.h"

namespace peercache::doctor {
namespace {

std::string NumaText(int node) { return node < 0 ? "" : std::to_string(node); }

std::string MtuText(uint32_t active, uint32_t largest) {
  return active == 0 ? "" : fmt::format("{}/{}", active, largest);
}

// Of the limits that a device reports for no limit.
std::string LimitText(uint64_t bytes) {
  return bytes == 0 ? "" : bytes >= uint64_t{1} << 62 ? "no limit" : FormatSize(bytes);
}

Table DeviceTable(const Facts& facts) {
  Table table{
      "devices",
      "RDMA devices",
      {"device", "PCI", "function", "NUMA", "transport", "firmware", "GUID", "dmabuf", "opens"},
      {}};
  for (const rdma::Device& d : facts.devices) {
    table.rows.push_back({d.name, d.pci_address,
                          d.software()         ? "software"
                          : d.virtual_function ? "virtual"
                                               : "physical",
                          NumaText(d.numa_node), rdma::TransportName(d.transport), d.firmware,
                          d.node_guid, rdma::SupportName(d.dmabuf),
                          d.opens.ok() ? "yes" : d.opens.message()});
  }
  return table;
}

Table LimitTable(const Facts& facts) {
  Table table{"limits",
              "Limits of the devices",
              {"device", "queue pairs", "requests of a queue", "segments", "segments of a read",
               "completions", "reads out", "reads in", "bytes registered at once", "registrations",
               "paging on demand"},
              {}};
  for (const rdma::Device& d : facts.devices) {
    if (!d.opens.ok()) continue;
    const rdma::DeviceLimits& l = d.limits;
    table.rows.push_back({d.name, std::to_string(l.max_qp), std::to_string(l.max_qp_wr),
                          std::to_string(l.max_sge), std::to_string(l.max_sge_rd),
                          std::to_string(l.max_cqe), std::to_string(l.max_qp_init_rd_atom),
                          std::to_string(l.max_qp_rd_atom), LimitText(l.max_mr_size),
                          std::to_string(l.max_mr), l.on_demand_paging.ok() ? "yes" : "no"});
  }
  return table;
}

std::string InterfacesText(const rdma::Port& port) {
  std::vector<std::string> texts;
  for (const rdma::Interface& i : port.interfaces)
    texts.push_back(fmt::format("{} (MTU {}{})", i.name, i.mtu, i.up ? "" : ", down"));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Table PortTable(const Facts& facts, const Result<rdma::Selection>& rails) {
  Table table{"ports",
              "RDMA ports",
              {"port", "state", "physical", "link", "rate", "MTU", "LID", "pkeys", "interfaces",
               "NUMA", "rail"},
              {}};
  for (const rdma::Device& device : facts.devices) {
    for (const rdma::Port& p : device.ports) {
      std::string rail = "no";
      if (rails.ok())
        for (const rdma::SelectedPort& selected : rails->ports)
          if (selected.port == &p) rail = selected.usable.ok() ? "yes" : "not usable";
      std::vector<std::string> pkeys;
      for (const uint16_t pkey : p.pkeys) pkeys.push_back(fmt::format("{:#06x}", pkey));
      table.rows.push_back(
          {p.Name(), p.state_text, p.physical_state, rdma::LinkLayerName(p.link_layer), p.rate_text,
           MtuText(p.active_mtu, p.max_mtu), p.lid == 0 ? "" : std::to_string(p.lid),
           fmt::format("{}", fmt::join(pkeys, " ")), InterfacesText(p), NumaText(p.numa_node),
           rail});
    }
  }
  return table;
}

Table GidTable(const Facts& facts) {
  Table table{
      "gids", "GIDs", {"port", "index", "address", "type", "interface", "chosen", "why"}, {}};
  for (const rdma::Device& device : facts.devices) {
    for (const rdma::Port& p : device.ports) {
      // Of a port that is no rail: the one that it would have.
      const auto gid = rdma::ParseGidPreference(facts.config.rdma_gid);
      const auto chosen =
          gid.ok() ? rdma::ChooseGid(p, *gid) : Result<rdma::ChosenGid>(gid.status());
      for (const rdma::Gid& g : p.gids) {
        const bool here = chosen.ok() && chosen->gid.index == g.index;
        table.rows.push_back({p.Name(), std::to_string(g.index), rdma::FormatAddress(g.address),
                              rdma::GidTypeName(g.type), g.interface, here ? "yes" : "",
                              here ? chosen->why : ""});
      }
    }
  }
  return table;
}

Table NumaTable(const Facts& facts) {
  Table table{
      "numa", "NUMA nodes", {"node", "CPUs", "allowed here", "memory free", "huge pages free"}, {}};
  for (const NumaNode& node : facts.numa_nodes) {
    const NumaPlan plan = PlanNuma(node.id, facts.numa_nodes, facts.allowed_cpus);
    std::vector<std::string> huge;
    for (const HugePagePool& pool : facts.huge_pages)
      if (pool.numa_node == node.id)
        huge.push_back(
            fmt::format("{} of {} of {}", pool.free, pool.total, FormatSize(pool.page_size)));
    const auto free = facts.small_pages_free.find(node.id);
    table.rows.push_back(
        {std::to_string(node.id), FormatCpuList(node.cpus), FormatCpuList(plan.cpus),
         free == facts.small_pages_free.end() ? "" : FormatSize(free->second >> 20 << 20),
         fmt::format("{}", fmt::join(huge, ", "))});
  }
  return table;
}

}  // namespace

Report Diagnose(const Facts& facts) {
  const Result<rdma::Selection> rails = ChooseRails(facts);
  Report report;
  report.tables = {DeviceTable(facts), LimitTable(facts), PortTable(facts, rails), GidTable(facts),
                   NumaTable(facts)};
  for (Findings findings :
       {CheckRails(facts, rails), CheckClasses(facts), CheckPci(facts, rails),
        CheckNuma(facts, rails), CheckMemory(facts), CheckIdle(facts), CheckMemlock(facts, rails),
        CheckDescriptors(facts, rails), CheckGpu(facts, rails), CheckReach(facts)})
    report.findings.insert(report.findings.end(), std::make_move_iterator(findings.begin()),
                           std::make_move_iterator(findings.end()));
  return report;
}

int Run(const NodeConfig& config, bool json) {
  const Report report = Diagnose(Gather(config));
  const std::string text = json ? RenderJson(report) : RenderText(report);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return report.ExitCode();
}

int PrintStatus(const NodeConfig& config) {
  const auto status = LocalStatus(config);
  std::FILE* const out = status.ok() ? stdout : stderr;
  const std::string text = status.ok() ? *status : status.status().message() + "\n";
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
  return status.ok() ? 0 : 1;
}

}  // namespace peercache::doctor
