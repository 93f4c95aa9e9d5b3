#include "base/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/memory_limit.h"
#include "base/size.h"

namespace peercache {
namespace {

constexpr size_t k2MiB = size_t{2} << 20;
constexpr size_t k1GiB = size_t{1} << 30;

Status Failed(const std::string& name, std::string_view call, size_t size, std::string_view fix) {
  Status status = FromErrno(fmt::format("{}: {} of {}", name, call, FormatSize(size)), errno);
  return {status.code(), fmt::format("{}; {}", status.message(), fix)};
}

std::string HugePageFix(size_t page_size) {
  return fmt::format(
      "check nr_hugepages in /sys/kernel/mm/hugepages/hugepages-{}kB and, in a container, its "
      "hugepages-{} limit",
      page_size / 1024, FormatSize(page_size));
}

// Huge pages that are reserved can still be denied at first touch by a hugetlb cgroup, as SIGBUS.
// Touching them through the kernel turns that into an error here.
Status Populate(const std::string& name, std::span<std::byte> bytes, size_t page_size) {
  if (::madvise(bytes.data(), bytes.size(), MADV_POPULATE_WRITE) == 0) return {};
  if (errno == EINVAL) return {};  // a kernel before 5.14: it cannot be asked
  return Failed(name, "taking huge pages", bytes.size(), HugePageFix(page_size));
}

Status CheckIsMemory(int fd, const struct stat& info, const struct statfs& system,
                     MapAccess access) {
  if (!S_ISREG(info.st_mode) ||
      (system.f_type != TMPFS_MAGIC && system.f_type != HUGETLBFS_MAGIC)) {
    return InvalidArgument(
        fmt::format("the descriptor is not shared memory (mode {:o}, file system {:#x}); pass one "
                    "of memfd_create, shm_open or a file on tmpfs or hugetlbfs",
                    info.st_mode, system.f_type));
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (access == MapAccess::kReadWrite && seals != -1 &&
      (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0) {
    return InvalidArgument(
        "the shared memory is sealed against writing; pass it without F_SEAL_WRITE and "
        "F_SEAL_FUTURE_WRITE");
  }
  return {};
}

// A core file would hold what users have told models, and be as large as the pool. A hint.
void LeaveOutOfCores(void* data, size_t length) { (void)::madvise(data, length, MADV_DONTDUMP); }

}  // namespace

size_t SmallPageSize() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

Result<HugePages> ParseHugePages(std::string_view text) {
  for (HugePages pages : {HugePages::kAuto, HugePages::kOff, HugePages::k2Mi, HugePages::k1Gi})
    if (text == HugePagesName(pages)) return pages;
  return InvalidArgument(
      fmt::format("huge pages \"{}\" is none of auto, off, 2Mi, 1Gi; write one of these", text));
}

std::string_view HugePagesName(HugePages pages) {
  switch (pages) {
    case HugePages::kAuto: return "auto";
    case HugePages::kOff: return "off";
    case HugePages::k2Mi: return "2Mi";
    case HugePages::k1Gi: return "1Gi";
  }
  return "unknown";
}

MappedRegion& MappedRegion::operator=(MappedRegion&& other) noexcept {
  if (this == &other) return *this;
  Unmap();
  fd_ = std::move(other.fd_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  mapping_ = std::exchange(other.mapping_, {});
  page_size_ = std::exchange(other.page_size_, 0);
  numa_ = std::exchange(other.numa_, {});
  device_ = std::exchange(other.device_, Device::kNone);
  map_error_ = std::exchange(other.map_error_, 0);
  return *this;
}

void MappedRegion::Unmap() {
  if (!mapping_.empty()) ::munmap(mapping_.data(), mapping_.size());
  mapping_ = {};
}

Result<MappedRegion> MappedRegion::Create(const std::string& name, size_t size,
                                          HugePages huge_pages, int numa_node) {
  if (huge_pages == HugePages::k2Mi) return CreateWith(name, size, k2MiB, numa_node);
  if (huge_pages == HugePages::k1Gi) return CreateWith(name, size, k1GiB, numa_node);
  if (huge_pages == HugePages::kAuto) {
    Result<MappedRegion> region = CreateWith(name, size, k2MiB, numa_node);
    if (region.ok()) return region;
    spdlog::warn("using {} pages instead of huge pages: {}", FormatSize(SmallPageSize()),
                 region.status().message());
  }
  return CreateWith(name, size, SmallPageSize(), numa_node);
}

Result<MappedRegion> MappedRegion::CreateWith(const std::string& name, size_t size,
                                              size_t page_size, int numa_node) {
  const bool huge = page_size != SmallPageSize();
  if (size == 0 || size % page_size != 0)
    return InvalidArgument(fmt::format("{}: size {} is not a positive multiple of its page size {}",
                                       name, FormatSize(size), FormatSize(page_size)));
  // Huge pages are outside of the memory cgroup, but within the machine.
  Status fits = huge ? CheckHugePages(name, size, page_size, ReadHugePageCounts(page_size))
                     : CheckFits(name, size, ReadMemoryLimit());
  if (!fits.ok()) return fits;

  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (huge) flags |= MFD_HUGETLB | (page_size == k1GiB ? MFD_HUGE_1GB : MFD_HUGE_2MB);
  MappedRegion region;
  region.fd_ = UniqueFd(::memfd_create(name.c_str(), flags));
  if (!region.fd_) {
    return Failed(name, "memfd_create", size,
                  huge ? HugePageFix(page_size)
                       : "check the limit of open files (ulimit -n) and the seccomp profile");
  }
  if (::ftruncate(region.fd(), static_cast<off_t>(size)) != 0)
    return Failed(name, "ftruncate", size, "check the limit of file sizes (ulimit -f)");
  if (::fcntl(region.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return Failed(name, "sealing", size, "the kernel must support F_ADD_SEALS (Linux 4.16)");
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd(), 0);
  if (data == MAP_FAILED) {
    return Failed(name, "mmap", size,
                  huge ? HugePageFix(page_size)
                       : "check the limit of address space (ulimit -v) and choose a smaller size");
  }
  LeaveOutOfCores(data, size);
  region.data_ = static_cast<std::byte*>(data);
  region.size_ = size;
  region.mapping_ = {region.data_, size};
  region.page_size_ = page_size;
  region.numa_ = PlaceOnNuma(region.mapping_, page_size, numa_node);  // before anybody touches it
  if (huge) {
    if (Status status = Populate(name, region.mapping_, page_size); !status.ok()) return status;
  } else {
    // Transparent huge pages where the administrator lets shared memory have them; a hint.
    (void)::madvise(data, size, MADV_HUGEPAGE);
  }
  return region;
}

Result<MappedRegion> MappedRegion::Map(UniqueFd fd, size_t size, MapAccess access, uint64_t offset,
                                       int numa_node) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0)
    return FromErrno("reading the size of a shared memory file", errno);
  struct statfs system {};
  if (::fstatfs(fd.get(), &system) != 0)
    return FromErrno("reading the file system of a shared memory file", errno);
  if (Status s = CheckIsMemory(fd.get(), info, system, access); !s.ok()) return s;
  const uint64_t file_size = info.st_size < 0 ? 0 : static_cast<uint64_t>(info.st_size);
  if (size == 0 || offset > file_size || size > file_size - offset)
    return InvalidArgument(fmt::format(
        "shared memory [{}, {} + {}) is not inside the file of {} bytes; pass an offset "
        "and a length within it",
        offset, offset, size, file_size));
  MappedRegion region;
  // Mappings of hugetlbfs begin and end on one of its pages. tmpfs maps small ones, also where it
  // makes them of huge pages and says so in st_blksize.
  region.page_size_ =
      system.f_type == HUGETLBFS_MAGIC ? static_cast<size_t>(system.f_bsize) : SmallPageSize();
  const size_t lead = offset % region.page_size_;
  const size_t length =
      (lead + size + region.page_size_ - 1) / region.page_size_ * region.page_size_;
  const int protection = access == MapAccess::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* start =
      ::mmap(nullptr, length, protection, MAP_SHARED, fd.get(), static_cast<off_t>(offset - lead));
  if (start == MAP_FAILED)
    return Failed("shared memory", "mmap", size,
                  "the file must be open for the access asked for; check ulimit -v");
  LeaveOutOfCores(start, length);
  region.fd_ = std::move(fd);
  region.mapping_ = {static_cast<std::byte*>(start), length};
  region.data_ = region.mapping_.data() + lead;
  region.size_ = size;
  if (numa_node >= 0) region.numa_ = PlaceOnNuma(region.mapping_, region.page_size_, numa_node);
  return region;
}

}  // namespace peercache
