// How much memory this process may use, so that a pool that cannot fit is refused with a clear
// error at start instead of being killed when it fills.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace peercache {

struct MemoryLimit {
  uint64_t bytes = 0;
  std::string source;  // "MemTotal of /proc/meminfo", "memory.max of cgroup /kubepods/..."
};

// The smallest of the machine's memory and the limits of this process's cgroups. The arguments are
// the roots of the two file systems; tests give their own.
MemoryLimit ReadMemoryLimit(const std::string& proc = "/proc",
                            const std::string& cgroup = "/sys/fs/cgroup");
// Ok when `size` is within the limit, else an error naming both and the fix.
Status CheckFits(std::string_view name, uint64_t size, const MemoryLimit& limit);

// The kernel's counters of one huge page size.
struct HugePageCounts {
  uint64_t total = 0, free = 0, reserved = 0;
  uint64_t available() const { return free > reserved ? free - reserved : 0; }
};
HugePageCounts ReadHugePageCounts(uint64_t page_size,
                                  const std::string& root = "/sys/kernel/mm/hugepages");
// Ok when `size` can be had of pages of `page_size`, else an error with the command that helps.
Status CheckHugePages(std::string_view name, uint64_t size, uint64_t page_size,
                      const HugePageCounts& counts);

}  // namespace peercache
