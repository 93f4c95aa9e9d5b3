#include "base/numa.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>

#include "base/cpu_list.h"
#include "base/small_file.h"

namespace peercache {
namespace {

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, FreeCpuSet>;

std::vector<int> ReadList(const std::string& path) {
  auto list = ParseCpuList(ReadSmallFile(path));
  return list.ok() ? std::move(*list) : std::vector<int>();
}

bool Contains(const std::vector<int>& sorted, int value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

Status RunOn(const std::vector<int>& cpus) {
  const int count = cpus.back() + 1;
  const CpuSet set(CPU_ALLOC(count));
  const size_t bytes = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : cpus) CPU_SET_S(cpu, bytes, set.get());
  if (::sched_setaffinity(0, bytes, set.get()) == 0) return {};
  return FromErrno(fmt::format("keeping a thread on CPUs {}", FormatCpuList(cpus)), errno);
}

}  // namespace

std::vector<NumaNode> ReadNumaNodes(const std::string& root) {
  const std::string path = root + "/devices/system/node/";
  const std::vector<int> with_memory = ReadList(path + "has_memory");
  std::vector<NumaNode> nodes;
  for (const int id : ReadList(path + "online")) {
    nodes.push_back(
        {id, ReadList(fmt::format("{}node{}/cpulist", path, id)), Contains(with_memory, id)});
  }
  return nodes;
}

std::vector<int> AllowedCpus() {
  // The call fails while the set is smaller than the kernel's.
  for (int count = 1024; count <= 1 << 16; count *= 2) {
    const CpuSet set(CPU_ALLOC(count));
    const size_t bytes = CPU_ALLOC_SIZE(count);
    CPU_ZERO_S(bytes, set.get());
    if (::sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> cpus;
    for (int cpu = 0; cpu < count; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
    return cpus;
  }
  return {};
}

NumaPlan PlanNuma(int wanted, const std::vector<NumaNode>& nodes, const std::vector<int>& allowed) {
  NumaPlan plan;
  plan.node = wanted;
  if (wanted < 0) {
    plan.threads_why = plan.memory_why = "no NUMA node is requested";
    return plan;
  }
  const auto node =
      std::find_if(nodes.begin(), nodes.end(), [&](const NumaNode& n) { return n.id == wanted; });
  if (node == nodes.end()) {
    std::vector<int> ids;
    for (const NumaNode& n : nodes) ids.push_back(n.id);
    plan.threads_why = plan.memory_why =
        fmt::format("this machine has no NUMA node {}, only {}", wanted,
                    ids.empty() ? "one that its kernel does not name" : FormatCpuList(ids));
    return plan;
  }
  if (node->has_memory)
    plan.memory_node = wanted;
  else
    plan.memory_why = fmt::format("NUMA node {} has no memory", wanted);
  std::set_intersection(node->cpus.begin(), node->cpus.end(), allowed.begin(), allowed.end(),
                        std::back_inserter(plan.cpus));
  plan.threads_why =
      plan.cpus.empty()
          ? fmt::format(
                "none of NUMA node {}'s CPUs ({}) is among those allowed here ({}): align "
                "them (kubelet: static CPU manager and single-numa-node topology; "
                "otherwise taskset or cpuset)",
                wanted, FormatCpuList(node->cpus), FormatCpuList(allowed))
          : fmt::format("CPUs {} of NUMA node {}", FormatCpuList(plan.cpus), wanted);
  return plan;
}

ScopedCpus::ScopedCpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  before_ = AllowedCpus();
  status_ = RunOn(cpus);
  if (!status_.ok()) before_.clear();
}

ScopedCpus::~ScopedCpus() {
  if (!before_.empty()) (void)RunOn(before_);
}

}  // namespace peercache
