// Log: appends pages to the regions of one device.
//
//   Append       copies the page into a ring of write buffers and returns; the caller's memory is
//                free again. Pages lie one behind the other, each at a multiple of kBlock.
//   the device   writes the buffers in their order, at most `write_depth` at a time, of at most
//                256 KiB, and no faster than `write_rate`: reads go first.
//   committed    all bytes of a page are on the device: it is stored in the catalog, and read from
//                now on
//   contents     a block that names the page is written (contents.h): it survives a crash
//
// The pages in a buffer whose write fails are dropped. Nothing is put for a while then (backoff.h):
// a full file system, or a drive that fails its writes, may still be read. A region is closed when
// its contents cannot be written: the pages in it are found until it is given up, and not after a
// crash.
//
// Costs: Append copies once and takes a lock for as long; it allocates nothing and waits for no
// device. The copy is what makes slots of the pool free at once and small pages large writes; it is
// bounded by the write rate, a few percent of a processor.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "disk/aligned.h"
#include "disk/backoff.h"
#include "disk/catalog.h"
#include "disk/contents.h"
#include "disk/counts.h"
#include "disk/device.h"
#include "disk/limits.h"
#include "disk/regions.h"

namespace peercache::disk {

inline constexpr uint32_t kWriteBytes = 256 << 10;
inline constexpr uint32_t kMostPending = 8192;  // pages between Append and their contents block

class Log {
 public:
  Log(uint16_t number, uint64_t file_id, const Geometry& geometry, const LogLimits& limits,
      Device* device, Regions* regions, Catalog* catalog, Sequence* sequence, Counts* counts);

  // False: no memory for the buffers.
  bool ok() const { return static_cast<bool>(memory_); }

  enum class Taken : uint8_t { kYes, kQueue, kRegion, kOff };
  // `page`: key, tag and checksum (0: not known) are the page's; the rest is filled in. `moves`:
  // the page is on disk already, and keeps its sequence.
  Taken Append(const DiskPage& page, std::span<const std::byte> bytes, bool moves);
  // By the device's thread after each round; when it wants to be called again.
  Duration Tick();
  // Has all that was appended before written, contents too. kDeadlineExceeded: not in time.
  Status Flush(TimePoint deadline);

  // Bytes that wait to be written or are being written.
  uint64_t queued_bytes() const;
  // Of the last write, when it has failed and none has worked since; 0: it has not.
  int write_error() const;

 private:
  struct Buffer {
    IoRequest request;
    Log* log = nullptr;
    uint32_t used = 0;
    bool done = false;
    int error = 0;
  };
  struct Pending {
    DiskPage page;
    uint64_t epoch = 0;
    uint64_t first = 0, last = 0;  // numbers of its buffers
    bool moves = false;
    bool failed = false;
  };

  Buffer& At(uint64_t number) { return buffers_[number % buffers_.size()]; }
  std::byte* Memory(uint64_t number) const {
    return memory_.data() + number % buffers_.size() * kWriteBytes;
  }
  // Under append_: a region with room for the page. The last free one is for pages that move, which
  // is what has to end before others become free.
  bool Room(uint64_t bytes, bool moves);
  void CloseRegion();
  // Under append_: hands the buffer that is being filled to the device.
  void Seal();
  void SealOld(TimePoint now, bool flush);
  // Under state_.
  void Pump(TimePoint now);
  void Complete(TimePoint now);
  void Ended(int error, TimePoint now);  // a write; 0: well
  void Commit();
  void NoteCommitted(TimePoint now, bool flush);

  const uint16_t number_;
  const Geometry geometry_;
  const LogLimits limits_;
  Device* const device_;
  Regions* const regions_;
  Catalog* const catalog_;
  Sequence* const sequence_;
  Counts* const counts_;
  std::vector<Buffer> buffers_;
  const AlignedBuffer memory_;

  std::mutex append_;  // taken before state_
  bool open_ = false;
  uint32_t region_ = 0;
  uint64_t epoch_ = 0;
  uint64_t cursor_ = 0;       // in the region, where the next page begins
  uint32_t pages_ = 0;        // in the region
  uint32_t filled_ = 0;       // bytes in the buffer that is being filled
  uint64_t filled_from_ = 0;  // of the region
  TimePoint filled_since_{};

  // Buffers by number: [completed_, submitted_) are being written, up to sealed_ they wait, and
  // sealed_ itself is being filled.
  mutable std::mutex state_;
  std::condition_variable progress_;
  uint64_t completed_ = 0, submitted_ = 0, sealed_ = 0;
  uint32_t in_flight_ = 0;
  int write_error_ = 0;
  Backoff pause_;         // after it
  double allowance_ = 0;  // of write_rate
  TimePoint allowed_at_{};
  uint64_t failed_epoch_ = 0;  // of a region that must not be written any more
  // Pages by number: up to safe_ they are in a block on the device, up to noted_ in a block, up to
  // committed_ in the catalog.
  std::vector<Pending> pending_;
  uint64_t safe_ = 0, noted_ = 0, committed_ = 0, appended_ = 0;
  uint64_t flush_wanted_ = 0;  // 0, or Flush waits until safe_ is so far

  Contents contents_;  // of the device's thread
};

}  // namespace peercache::disk
