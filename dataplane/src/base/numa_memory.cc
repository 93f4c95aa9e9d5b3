#include "base/numa_memory.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/size.h"
#include "base/small_file.h"

namespace peercache {
namespace {

constexpr int kMostNodes = 1024;  // MAX_NUMNODES of the kernels that distributions build

long Mbind(std::span<std::byte> mapping, int policy, int node) {
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMostNodes / kBits> mask{};
  const auto bit = static_cast<size_t>(node);
  mask[bit / kBits] |= 1ul << (bit % kBits);
  // The kernel reads one bit less than it is told.
  return ::syscall(SYS_mbind, mapping.data(), mapping.size(), policy, mask.data(), kMostNodes + 1,
                   0);
}

// The number in "Node 0 MemFree:   123 kB", in bytes.
uint64_t MeminfoBytes(const std::string& meminfo, std::string_view name) {
  const size_t at = meminfo.find(name);
  if (at == std::string::npos) return 0;
  const size_t digits = meminfo.find_first_of("0123456789", at + name.size());
  if (digits == std::string::npos) return 0;
  return 1024 * ParseLeadingNumber<uint64_t>(std::string_view(meminfo).substr(digits)).value_or(0);
}

}  // namespace

const char* NumaMemoryName(NumaMemory memory) {
  switch (memory) {
    case NumaMemory::kAnywhere: return "anywhere";
    case NumaMemory::kBound: return "bound";
    case NumaMemory::kPreferred: return "preferred";
    case NumaMemory::kFirstTouch: return "first touch";
  }
  return "unknown";
}

const char* NumaSourceName(NumaSource source) {
  switch (source) {
    case NumaSource::kNone: return "nobody";
    case NumaSource::kRefused: return "none: the kernel does not allow the request";
    case NumaSource::kMovePages: return "move_pages";
    case NumaSource::kNumaMaps: return "numa_maps";
  }
  return "unknown";
}

NumaFree ReadNumaFree(int node, size_t page_size, const std::string& root) {
  const std::string path = fmt::format("{}/devices/system/node/node{}/", root, node);
  if (page_size > static_cast<size_t>(::sysconf(_SC_PAGESIZE))) {
    const auto pages = ReadNumber<uint64_t>(
        fmt::format("{}hugepages/hugepages-{}kB/free_hugepages", path, page_size / 1024));
    return {pages.value_or(0) * page_size, true};
  }
  const std::string meminfo = ReadSmallFile(path + "meminfo");
  // Pages of files give way.
  return {MeminfoBytes(meminfo, " MemFree:") + MeminfoBytes(meminfo, " Inactive(file):") +
              MeminfoBytes(meminfo, " Active(file):"),
          false};
}

NumaMemoryChoice ChooseNumaMemory(int node, size_t size, const NumaFree& free) {
  if (node < 0) return {NumaMemory::kAnywhere, "no NUMA node is requested"};
  // Of small pages some must be left to everybody else.
  const uint64_t usable = free.huge ? free.bytes : free.bytes / 16 * 15;
  if (size <= usable) return {NumaMemory::kBound, fmt::format("all from NUMA node {}", node)};
  return {NumaMemory::kPreferred,
          fmt::format(
              "NUMA node {} has {} of {} free in {} pages: the rest comes from other nodes; "
              "{}",
              node, FormatSize(free.bytes), FormatSize(size), free.huge ? "huge" : "small",
              free.huge ? fmt::format("raise nr_hugepages in /sys/devices/system/node/node{}", node)
                        : "choose a smaller pool")};
}

NumaMemoryChoice PlaceOnNuma(std::span<std::byte> mapping, size_t page_size, int node,
                             const std::string& root) {
  NumaMemoryChoice choice =
      ChooseNumaMemory(node, mapping.size(), ReadNumaFree(node, page_size, root));
  if (choice.memory == NumaMemory::kAnywhere) return choice;
  const int policy = choice.memory == NumaMemory::kBound ? MPOL_BIND : MPOL_PREFERRED;
  if (node >= kMostNodes) errno = EINVAL;
  if (node < kMostNodes && Mbind(mapping, policy, node) == 0) return choice;
  return {NumaMemory::kFirstTouch,
          fmt::format("mbind to NUMA node {}: {}{}", node, std::strerror(errno),
                      errno == EPERM ? " (containers need CAP_SYS_NICE for it)" : "")};
}

NumaSample SampleNuma(std::span<const std::byte> mapping, size_t page_size, int node,
                      size_t samples) {
  NumaSample sample;
  if (node < 0 || page_size == 0) return sample;
  const size_t pages = mapping.size() / page_size;
  const size_t count = std::min(samples, pages);
  std::vector<void*> addresses;
  for (size_t i = 0; i < count; ++i) {
    // The middle of each of `count` equal parts; the kernel only reads the addresses.
    const size_t page = (2 * i + 1) * pages / (2 * count);
    addresses.push_back(const_cast<std::byte*>(mapping.data()) + page * page_size);
  }
  std::vector<int> where(count, -ENOENT);
  if (::syscall(SYS_move_pages, 0, count, addresses.data(), nullptr, where.data(), 0) != 0) {
    if (errno == EPERM) sample.source = NumaSource::kRefused;
    return sample;
  }
  sample.source = NumaSource::kMovePages;
  for (const int place : where) {
    if (place == node)
      ++sample.on_node;
    else if (place >= 0)
      ++sample.elsewhere;
    else
      ++sample.absent;
  }
  return sample;
}

}  // namespace peercache
