// Near: which rails are on another NUMA node than most of a range of memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/numa_memory.h"

namespace peercache::rdma {

// Pure. `rails`: the NUMA node of each, -1: not known. `sample`: what of the memory is on a node;
// it is asked once for each, and not at all when all rails are on one: none is nearer then. Of each
// rail; empty: none is near, or nobody knows.
std::vector<bool> FarRails(std::span<const int> rails,
                           const std::function<NumaSample(int node)>& sample);

// Where `bytes`, all of which are there, are: asks about some pages, and where the kernel does not
// answer that (containers), reads numa_maps.
NumaSample SampleTouched(std::span<const std::byte> bytes, int node);

}  // namespace peercache::rdma
