// /proc/self/numa_maps: on which NUMA nodes the pages of a mapping are, for those whom the kernel
// does not answer about single pages (move_pages), as in containers.
//
// A line tells where a mapping begins, not where it ends, and sums its pages by node:
//
//   7f2a40000000 bind:0 file=/memfd:pool\040(deleted) huge dirty=512 N0=500 N1=12
//   kernelpagesize_kB=2048
//
// The kernel looks at every page of the process for it, some 60 ns for each: for once, not for
// every scrape.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/numa_memory.h"

namespace peercache {

// Pure: what `text` says of `mapping`, of at most `samples` pages in proportion, as if they had
// been asked for. Unknown when no line begins where the mapping does: then it is a part of one,
// whose other pages would count.
NumaSample SumNumaMaps(std::string_view text, std::span<const std::byte> mapping, int node,
                       size_t samples = 64);

NumaSample ReadNumaMaps(std::span<const std::byte> mapping, int node,
                        const std::string& path = "/proc/self/numa_maps");

}  // namespace peercache
