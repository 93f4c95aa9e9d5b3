#include "base/dma_buf.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/dma-buf.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/divide.h"

namespace peercache {
namespace {

// What NVIDIA's open kernel modules answer (580): the kernel's own ENOTSUPP, which has no text
// here.
constexpr int kKernelsNotSupported = 524;

int Sync(const MappedRegion& region, uint64_t flags) {
  const dma_buf_sync sync{flags};
  int failed = 0;
  do failed = ::ioctl(region.fd(), DMA_BUF_IOCTL_SYNC, &sync);
  while (failed != 0 && (errno == EINTR || errno == EAGAIN));
  return failed;
}

uint64_t SyncFlags(DmaBufAccess::What what) {
  return what == DmaBufAccess::kRead ? DMA_BUF_SYNC_READ : DMA_BUF_SYNC_RW;
}

}  // namespace

Result<uint64_t> DmaBufSize(int fd) {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0)
    return InvalidArgument(FromErrno("the descriptor of a dma-buf", errno).message());
  // All dma-bufs, and nothing else, are files of this one; nobody can mount it.
  if (system.f_type != DMA_BUF_MAGIC) {
    return InvalidArgument(
        fmt::format("the descriptor is not a dma-buf (file system {:#x}); pass one of "
                    "cuMemGetHandleForAddressRange, or share host memory as a region",
                    system.f_type));
  }
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < 0) return FromErrno("asking for the size of a dma-buf", errno);
  return static_cast<uint64_t>(size);
}

Result<MappedRegion> MappedRegion::MapDmaBuf(UniqueFd fd, size_t size, uint64_t offset) {
  const auto whole = DmaBufSize(fd.get());
  if (!whole.ok()) return whole.status();
  if (size == 0 || offset > *whole || size > *whole - offset) {
    return InvalidArgument(
        fmt::format("[{}, {} + {}) is not inside the dma-buf of {} bytes; pass an offset and a "
                    "length within it",
                    offset, offset, size, *whole));
  }
  if ((::fcntl(fd.get(), F_GETFL) & O_ACCMODE) != O_RDWR) {
    return InvalidArgument(
        "the dma-buf's descriptor is not open for reading and writing, and pages are READ into it: "
        "export it with O_RDWR");
  }
  MappedRegion region;
  region.page_size_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t lead = offset % region.page_size_;
  const size_t length = DivideUp(lead + size, region.page_size_) * region.page_size_;
  region.device_ = Device::kMapped;
  void* start = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(),
                       static_cast<off_t>(offset - lead));
  if (start == MAP_FAILED) {
    // Addresses of a file without bytes: whoever touches them meets SIGBUS, as behind the end of
    // memory that was cut short, and not somebody else's memory.
    region.device_ = Device::kUnmapped;
    region.map_error_ = errno == kKernelsNotSupported ? EOPNOTSUPP : errno;
    const UniqueFd nothing(::memfd_create("dma-buf", MFD_CLOEXEC));
    if (!nothing) return FromErrno("making addresses for a dma-buf", errno);
    start = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, nothing.get(), 0);
    if (start == MAP_FAILED) return FromErrno("making addresses for a dma-buf", errno);
  }
  region.fd_ = std::move(fd);
  region.mapping_ = {static_cast<std::byte*>(start), length};
  region.data_ = region.mapping_.data() + lead;
  region.size_ = size;
  return region;
}

Result<DmaBufAccess> DmaBufAccess::Begin(std::span<const std::shared_ptr<MappedRegion>> regions,
                                         What what, TimePoint deadline) {
  DmaBufAccess access(what);
  for (const auto& region : regions) {
    if (region->device() != MappedRegion::Device::kMapped) continue;
    // The call below waits for the devices that use the memory, without limit.
    pollfd ready{region->fd(), static_cast<short>(what == kRead ? POLLIN : POLLOUT), 0};
    const auto left = std::max<int64_t>(0, ToMillis(deadline - Clock::now()));
    if (::poll(&ready, 1, static_cast<int>(left)) <= 0)
      return DeadlineExceeded("a device is at work on the dma-buf; wait for it before the call");
    if (Sync(*region, DMA_BUF_SYNC_START | SyncFlags(what)) != 0)
      return FromErrno("beginning to use a dma-buf", errno);
    access.begun_.push_back(region);
  }
  return access;
}

DmaBufAccess::~DmaBufAccess() {
  for (const auto& region : begun_) (void)Sync(*region, DMA_BUF_SYNC_END | SyncFlags(what_));
}

}  // namespace peercache
