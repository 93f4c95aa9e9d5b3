// Where the pages of a mapping are: asking the kernel for a NUMA node, and looking afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace peercache {

enum class NumaMemory : uint8_t {
  kAnywhere,    // nothing was asked for
  kBound,       // pages come from the node, or not at all
  kPreferred,   // from the node while it has some, then from others
  kFirstTouch,  // the kernel refuses to be told: from the node of the thread that touches them
                // first
};
const char* NumaMemoryName(NumaMemory memory);

struct NumaMemoryChoice {
  NumaMemory memory = NumaMemory::kAnywhere;
  std::string why;
};

// What can be had of a node's memory, from its counters in sysfs. Pages of `page_size`.
struct NumaFree {
  uint64_t bytes = 0;
  bool huge = false;
};
NumaFree ReadNumaFree(int node, size_t page_size, const std::string& root = "/sys");

// Pure: bound when all of `size` fits, so that nothing can end up elsewhere unseen; preferred when
// not, since a bound page that its node cannot give ends the process.
NumaMemoryChoice ChooseNumaMemory(int node, size_t size, const NumaFree& free);

// Asks for `node` (-1: does nothing) for the pages of a mapping that nobody has touched. Containers
// without CAP_SYS_NICE may not (EPERM); that is no error, it leaves kFirstTouch.
NumaMemoryChoice PlaceOnNuma(std::span<std::byte> mapping, size_t page_size, int node,
                             const std::string& root = "/sys");

enum class NumaSource : uint8_t {
  kNone,       // nobody knows
  kRefused,    // the kernel may not be asked about pages (EPERM)
  kMovePages,  // it was asked about each page of the sample
  kNumaMaps,   // numa_maps.h
};
const char* NumaSourceName(NumaSource source);

// Where a sample of the pages is.
struct NumaSample {
  size_t on_node = 0, elsewhere = 0, absent = 0;  // absent: not touched yet
  NumaSource source = NumaSource::kNone;
  bool known() const { return source >= NumaSource::kMovePages; }
};
NumaSample SampleNuma(std::span<const std::byte> mapping, size_t page_size, int node,
                      size_t samples = 64);

}  // namespace peercache
