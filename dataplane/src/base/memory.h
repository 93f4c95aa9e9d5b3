// Shared memory: memfds of our own, and memfds that other processes hand us, mapped for as long as
// a MappedRegion lives.
//
//   auto pool = MappedRegion::Create("pool", size_t{4} << 30, HugePages::kAuto);
//   auto host = MappedRegion::Map(std::move(received_fd), claimed_size, MapAccess::kReadWrite);
//
// A region that we create is sealed against shrinking and growing, so that whoever maps it can rely
// on its size. A region that we map need not be: its owner may truncate it, and touching it behind
// the new end raises SIGBUS. Copy from and to it with the guarded functions of copy.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/numa_memory.h"
#include "base/status.h"

namespace peercache {

// kAuto takes 2 MiB pages when enough are free and says in the log when not; the explicit sizes
// fail instead.
enum class HugePages : uint8_t { kAuto, kOff, k2Mi, k1Gi };

Result<HugePages> ParseHugePages(std::string_view text);  // auto | off | 2Mi | 1Gi
std::string_view HugePagesName(HugePages pages);

size_t SmallPageSize();  // 4 KiB; on some arm64 kernels 64 KiB

enum class MapAccess : uint8_t { kRead, kReadWrite };

class MappedRegion {
 public:
  // A new zeroed memfd. `size` must be a multiple of the page size in use (kAuto falls back to
  // small pages when it is none of 2 MiB). `name` appears in /proc/PID/maps and in errors.
  // `numa_node`: where its pages should be; -1: anywhere. numa() says what became of that.
  static Result<MappedRegion> Create(const std::string& name, size_t size, HugePages huge_pages,
                                     int numa_node = -1);
  // Bytes [offset, offset + size) of another process's memfd or /dev/shm file; refused when the
  // file ends before, and when it is anything but memory: a page fault on a file of a file system
  // may wait for a disk, a server or a process that never answers. `numa_node`: where pages that
  // the file does not have yet should be; -1: that is its owner's business.
  static Result<MappedRegion> Map(UniqueFd fd, size_t size, MapAccess access, uint64_t offset = 0,
                                  int numa_node = -1);
  // Bytes [offset, offset + size) of a dma-buf (dma_buf.h). Drivers of GPUs may not let a processor
  // have them: the region then has addresses, by which RDMA devices know it, but no memory there,
  // and every access faults as one behind the end of a file does.
  static Result<MappedRegion> MapDmaBuf(UniqueFd fd, size_t size, uint64_t offset);

  enum class Device : uint8_t { kNone, kMapped, kUnmapped };

  MappedRegion() = default;
  MappedRegion(MappedRegion&& other) noexcept { *this = std::move(other); }
  MappedRegion& operator=(MappedRegion&& other) noexcept;
  ~MappedRegion() { Unmap(); }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  int fd() const { return fd_.get(); }
  // That of small pages, 2 MiB or 1 GiB: what the kernel uses for this region.
  size_t page_size() const { return page_size_; }
  const NumaMemoryChoice& numa() const { return numa_; }
  // Whether it is a dma-buf, and whether processors can reach it.
  Device device() const { return device_; }
  // Why a dma-buf is not mapped.
  int map_error() const { return map_error_; }

 private:
  static Result<MappedRegion> CreateWith(const std::string& name, size_t size, size_t page_size,
                                         int numa_node);
  void Unmap();

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::span<std::byte> mapping_;  // whole pages around data_: munmap of huge pages wants that
  size_t page_size_ = 0;
  NumaMemoryChoice numa_;
  Device device_ = Device::kNone;
  int map_error_ = 0;
};

}  // namespace peercache
