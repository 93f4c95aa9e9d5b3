#include "base/huge_bytes.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>

#include "base/fd.h"
#include "base/memory.h"

namespace peercache {
namespace {

// Of linux/fs.h since 6.7 (Documentation/admin-guide/mm/pagemap.rst), which is younger than the
// headers that this is built with.
struct FoundRange {
  uint64_t start = 0, end = 0, categories = 0;
};
struct PagemapScan {
  uint64_t size = sizeof(PagemapScan);
  uint64_t flags = 0;
  uint64_t start = 0, end = 0, walk_end = 0;
  uint64_t found = 0, found_size = 0;
  uint64_t max_pages = 0;
  uint64_t inverted = 0, all_of = 0, any_of = 0, told = 0;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, PagemapScan);
constexpr uint64_t kPageIsHuge = 1 << 6;

// Meanwhile the kernel holds a lock of the whole address space. /proc/self/smaps, which older
// kernels have too, holds it for a whole mapping, and takes 20 times as long (measured, Linux 6.18:
// 80 ns and 4 ns a page, which are 10 s and half a second of 500 GiB).
constexpr uintptr_t kScanStep = uintptr_t{1} << 30;

}  // namespace

std::optional<uint64_t> HugeBytes(std::span<const std::byte> mapping) {
  const UniqueFd pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const auto begin = reinterpret_cast<uintptr_t>(mapping.data()), end = begin + mapping.size();
  const uintptr_t page = SmallPageSize();
  std::array<FoundRange, 64> found;
  uint64_t bytes = 0;
  for (uintptr_t at = begin / page * page; at < end;) {
    PagemapScan scan;
    scan.start = at;
    scan.end = std::min(at + kScanStep, (end + page - 1) / page * page);
    scan.found = reinterpret_cast<uintptr_t>(found.data());
    scan.found_size = found.size();
    scan.all_of = scan.told = kPageIsHuge;
    const int count = ioctl(pagemap.get(), kPagemapScan, &scan);
    if (count < 0 || scan.walk_end <= at) return std::nullopt;
    for (int i = 0; i < count; ++i) {
      const uint64_t first = std::max<uint64_t>(found[i].start, begin);
      bytes += std::max(std::min<uint64_t>(found[i].end, end), first) - first;
    }
    at = scan.walk_end;
  }
  return bytes;
}

}  // namespace peercache
