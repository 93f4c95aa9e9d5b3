// What the doctor looks at, as plain values: gather.h reads them, checks.h judges them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/memory_limit.h"
#include "base/numa.h"
#include "base/numa_memory.h"
#include "base/status.h"
#include "doctor/pci.h"
#include "node/config/config.h"
#include "transport/rdma/device.h"
#include "transport/rdma/memlock.h"

namespace peercache::doctor {

// Huge pages of one size on one NUMA node.
struct HugePagePool {
  int numa_node = 0;
  uint64_t page_size = 0, total = 0, free = 0;
};

// What GPUDirect needs beside the RDMA device.
struct GpuFacts {
  std::string driver;         // NVIDIA's version line; empty: no such driver
  bool open_modules = false;  // of the open kernel modules, which dmabuf needs
  bool peermem = false;       // nvidia-peermem or its predecessor nv_peer_mem is loaded
};

// Of a virtual function: what of the port behind it this network namespace shows. Both lists are
// empty in most pods.
struct Uplink {
  std::string function;                 // PCI address of the physical function
  std::vector<std::string> devices;     // its RDMA devices
  std::vector<std::string> interfaces;  // its interfaces, "ens1f0" or, in a bond, "ens1f0 in bond0"
  bool bonded = false;                  // one of these is in a bond
};

// What a node that runs here already says of itself: it holds the memory that one to come would ask
// for.
struct RunningNode {
  bool huge_pages = false;
  std::string numa_placement, numa_why;
  // With which peer's port it differs in class or service level, and what to do; empty: with none.
  std::string class_mismatch = {};
  // Of the memory that engines share with it, as far as it knows.
  uint64_t engines_in_small_pages = 0, engines_in_huge_pages = 0;
};

// One attempt to connect.
struct Reach {
  enum class Kind : uint8_t { kDiscovery, kMember };
  Kind kind = Kind::kDiscovery;
  std::string name;     // as configured, or the member's id
  std::string address;  // host:port; empty when the name did not resolve
  bool local = false;   // an address of this host
  Status status;
  Duration took{};
};

struct Facts {
  NodeConfig config;
  Status verbs;  // of loading libibverbs
  std::vector<rdma::Device> devices;
  std::vector<NumaNode> numa_nodes;
  std::vector<int> allowed_cpus;
  std::vector<HugePagePool> huge_pages;
  // For how long an idle processor of this virtual machine polls before it halts; nothing where no
  // such thing is set.
  std::optional<Duration> halt_poll;
  MemoryLimit memory;
  rdma::Memlock memlock;
  DescriptorLimit descriptors{1 << 20, 1 << 20};
  std::map<std::string, Uplink> uplinks;  // by device; of virtual functions alone
  std::map<std::string, PciLink> pci;     // by device; of hardware alone
  std::map<std::string, std::map<std::string, uint64_t>> losses;  // counters by port (Port::Name)
  // Of what pages shared memory is made: "never", "advise", "always", ...; empty: not known.
  std::string shared_memory_pages;
  GpuFacts gpu;
  std::map<int, uint64_t> small_pages_free;  // bytes by NUMA node
  Result<RunningNode> running = Unavailable("it was not asked");
  std::vector<Reach> reach;
};

}  // namespace peercache::doctor
