#include "doctor/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/memory.h"
#include "base/small_file.h"
#include "doctor/reach.h"
#include "transport/rdma/verbs.h"

namespace peercache::doctor {
namespace {

std::vector<std::filesystem::path> Entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

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

std::optional<Duration> ReadHaltPoll(const std::string& sysfs) {
  // Hosts have the governor's parameters too; the driver is for guests alone.
  if (ReadSmallFile(sysfs + "/devices/system/cpu/cpuidle/current_driver") != "haltpoll")
    return std::nullopt;
  const auto ns = ReadNumber<uint64_t>(sysfs + "/module/haltpoll/parameters/guest_halt_poll_ns");
  if (!ns) return std::nullopt;
  return std::chrono::nanoseconds(*ns);
}

std::map<std::string, uint64_t> ReadLosses(const std::string& device, uint32_t port,
                                           const std::string& sysfs) {
  const std::string path =
      fmt::format("{}/class/infiniband/{}/ports/{}/hw_counters/", sysfs, device, port);
  std::map<std::string, uint64_t> losses;
  // The first four are counters of mlx5, the others of soft-RoCE.
  for (const char* name :
       {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err",
        "out_of_seq_request", "rcvd_seq_err", "completer_retry_err"}) {
    if (const auto count = ReadNumber<uint64_t>(path + name); count && *count > 0)
      losses[name] = *count;
  }
  return losses;
}

Uplink ReadUplink(const std::string& device, const std::string& sysfs) {
  Uplink uplink;
  std::error_code error;
  const auto function =
      std::filesystem::canonical(sysfs + "/class/infiniband/" + device + "/device/physfn", error);
  if (error) return uplink;
  uplink.function = function.filename();
  for (const auto& entry : Entries(function / "infiniband"))
    uplink.devices.push_back(entry.filename());
  for (const auto& entry : Entries(function / "net")) {
    std::string text = entry.filename();
    if (std::filesystem::exists(entry / "master/bonding", error)) {
      uplink.bonded = true;
      text += " in " + std::filesystem::canonical(entry / "master", error).filename().string();
    }
    uplink.interfaces.push_back(text);
  }
  return uplink;
}

// All settings are listed, the one that holds in brackets.
std::string ReadSharedMemoryPages(const std::string& sysfs) {
  const std::string text = ReadSmallFile(sysfs + "/kernel/mm/transparent_hugepage/shmem_enabled");
  const size_t begin = text.find('['), end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return text.substr(begin + 1, end - begin - 1);
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
  for (const rdma::Device& device : facts.devices)
    if (device.virtual_function) facts.uplinks[device.name] = ReadUplink(device.name, "/sys");
  for (const rdma::Device& device : facts.devices)
    if (!device.pci_address.empty()) facts.pci[device.name] = ReadPciLink(device.name, "/sys");
  for (const rdma::Device& device : facts.devices)
    for (const rdma::Port& port : device.ports)
      facts.losses[port.Name()] = ReadLosses(device.name, port.number, "/sys");
  facts.shared_memory_pages = ReadSharedMemoryPages("/sys");
  facts.numa_nodes = ReadNumaNodes();
  facts.allowed_cpus = AllowedCpus();
  facts.huge_pages = ReadHugePagePools(facts.numa_nodes, "/sys");
  facts.halt_poll = ReadHaltPoll("/sys");
  for (const NumaNode& node : facts.numa_nodes)
    facts.small_pages_free[node.id] = ReadNumaFree(node.id, SmallPageSize()).bytes;
  facts.memory = ReadMemoryLimit();
  facts.memlock = rdma::ReadMemlock();
  facts.descriptors = ReadDescriptorLimit();
  facts.gpu = ReadGpu("/sys", "/proc");
  Outlook outlook = LookAround(config);
  facts.running = std::move(outlook.running);
  facts.reach = std::move(outlook.reach);
  return facts;
}

}  // namespace peercache::doctor
