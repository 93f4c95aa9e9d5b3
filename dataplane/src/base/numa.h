// NUMA: which nodes the machine has, and the one that a process's threads and memory belong on.
//
//   const auto plan = PlanNuma(1, ReadNumaNodes(), AllowedCpus());   // pure
//   const ScopedCpus here(plan.cpus);         // threads made from here on inherit it
//   ... MappedRegion::Create(name, size, pages, plan.memory_node) ...
//
// "Node" in this file is a NUMA node, not a member of the cluster. System calls are made directly:
// there is no library to install.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace peercache {

struct NumaNode {
  int id = 0;
  std::vector<int> cpus;  // empty: memory only
  bool has_memory = true;
};

// Sorted by id; empty where the kernel knows no NUMA. `root` is that of sysfs.
std::vector<NumaNode> ReadNumaNodes(const std::string& root = "/sys");

// The CPUs that this thread may run on: the cpuset of the container, taskset.
std::vector<int> AllowedCpus();

// Where threads and memory should go, as far as the machine has such a place.
struct NumaPlan {
  int node = -1;          // wanted; -1: none
  int memory_node = -1;   // for memory: `node`, or -1 where it has none
  std::vector<int> cpus;  // for threads: those of the node that are allowed; empty: where they are
  std::string threads_why, memory_why;  // for the log and /v1/status
};
NumaPlan PlanNuma(int wanted, const std::vector<NumaNode>& nodes, const std::vector<int>& allowed);

// Keeps this thread, and those it starts meanwhile, on `cpus`; does nothing when they are none.
class ScopedCpus {
 public:
  explicit ScopedCpus(const std::vector<int>& cpus);
  ~ScopedCpus();
  ScopedCpus(const ScopedCpus&) = delete;
  ScopedCpus& operator=(const ScopedCpus&) = delete;

  // Ok when the thread is where it was asked to be.
  const Status& status() const { return status_; }

 private:
  std::vector<int> before_;  // empty: nothing to restore
  Status status_;
};

}  // namespace peercache
