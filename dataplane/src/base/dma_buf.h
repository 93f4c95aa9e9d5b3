// Dma-bufs: descriptors of memory that belongs to a device, as drivers of GPUs hand them out. An
// RDMA device may be able to write there though no processor can.
//
//   auto size = DmaBufSize(fd);                        // refuses what is none
//   auto region = MappedRegion::MapDmaBuf(...);        // memory.h
//   auto access = DmaBufAccess::Begin(regions, DmaBufAccess::kWrite, deadline);
//   ... copy, with the guarded functions of copy.h; its end tells the exporter ...
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"

namespace peercache {

// Bytes of the dma-buf. kInvalidArgument when the descriptor is something else.
Result<uint64_t> DmaBufSize(int fd);

// A time in which this process reads or writes mapped dma-bufs, as their exporters want to know.
class DmaBufAccess {
 public:
  enum What : uint8_t { kRead, kWrite };
  // Of those regions that are dma-bufs and mapped. Fails when a device is still at work on one of
  // them at `deadline`.
  static Result<DmaBufAccess> Begin(std::span<const std::shared_ptr<MappedRegion>> regions,
                                    What what, TimePoint deadline);
  DmaBufAccess(DmaBufAccess&& other) noexcept = default;
  DmaBufAccess& operator=(DmaBufAccess&&) = delete;
  ~DmaBufAccess();

 private:
  explicit DmaBufAccess(What what) : what_(what) {}
  What what_;
  std::vector<std::shared_ptr<MappedRegion>> begun_;
};

}  // namespace peercache
