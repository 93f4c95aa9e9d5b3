#include "doctor/gather.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/small_file.h"
#include "doctor/reach.h"
#include "transport/rdma/verbs.h"

namespace peercache::doctor {

std::vector<HugePagePool> ReadHugePagePools(const std::vector<NumaNode>& nodes,
                                            const std::string& sysfs) {
  std::vector<HugePagePool> pools;
  for (const NumaNode& node : nodes) {
    for (const uint64_t page_size : {uint64_t{2} << 20, uint64_t{1} << 30}) {
      const std::string path =
          fmt::format("{}/devices/system/node/node{}/hugepages/hugepages-{}kB/", sysfs, node.id,
                      page_size / 1024);
      const auto total = ReadNumber<uint64_t>(path + "nr_hugepages");
      if (!total) continue;  // this machine has no pages of that size
      pools.push_back(
          {node.id, page_size, *total, ReadNumber<uint64_t>(path + "free_hugepages").value_or(0)});
    }
  }
  return pools;
}

GpuFacts ReadGpu(const std::string& sysfs, const std::string& proc) {
  GpuFacts gpu;
  const std::string version = ReadSmallFile(proc + "/driver/nvidia/version");
  gpu.driver = version.substr(0, version.find('\n'));
  gpu.open_modules = gpu.driver.find("Open Kernel Module") != std::string::npos;
  std::error_code error;
  gpu.peermem = std::filesystem::exists(sysfs + "/module/nvidia_peermem", error) ||
                std::filesystem::exists(sysfs + "/module/nv_peer_mem", error);
  return gpu;
}

Facts Gather(const NodeConfig& config) {
  Facts facts;
  facts.config = config;
  facts.verbs = rdma::Verbs::Load().status();
  facts.devices = rdma::ReadDevices(rdma::SystemSources());
  facts.numa_nodes = ReadNumaNodes();
  facts.allowed_cpus = AllowedCpus();
  facts.huge_pages = ReadHugePagePools(facts.numa_nodes, "/sys");
  for (const NumaNode& node : facts.numa_nodes)
    facts.small_pages_free[node.id] = ReadNumaFree(node.id, 4096).bytes;
  facts.memory = ReadMemoryLimit();
  facts.memlock = rdma::ReadMemlock();
  facts.gpu = ReadGpu("/sys", "/proc");
  Outlook outlook = LookAround(config);
  facts.running = std::move(outlook.running);
  facts.reach = std::move(outlook.reach);
  return facts;
}

}  // namespace peercache::doctor
