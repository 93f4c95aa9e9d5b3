// Reading pages: straight into the caller's memory, each verified by its length and checksum.
//
//   DiskRead read;
//   read.key = key;
//   read.memory = slot;                 // of the pool
//   read.landed = [](DiskRead* late) { ... };
//   DiskRead* const batch[] = {&read};
//   if (reads.Read(batch, deadline) == 0 && read.outcome == ReadOutcome::kHit) ...
//
// A drive may keep an I/O for half a minute. So a read that is not there by the deadline ends as
// kLate, and memory and DiskRead stay the tier's until it has called `landed`.
//
// A batch may be longer than what a device takes at once: it goes through in pieces. A read for
// which other calls have left no room is kBusy.
//
// Costs: one lock of the catalog per 64 pages, two short locks of the device and one wake-up per
// page at most; no allocation; no copy but for the last block of a page whose memory ends in it.
// The calling thread verifies a page while the next ones are on their way.
#pragma once

#include <array>
#include <mutex>
#include <span>
#include <vector>

#include "disk/catalog.h"
#include "disk/counts.h"
#include "disk/device.h"
#include "disk/disk_read.h"
#include "disk/format.h"

namespace peercache::disk {

class Reads {
 public:
  struct Part {
    Device* device = nullptr;
    Geometry geometry;
  };

  // parts[i] is device i; one without a device is lost, or joins later.
  Reads(std::vector<Part> parts, Catalog* catalog, Counts* counts);

  // Before any page of the device is found.
  void Join(size_t device, Device* opened) { parts_[device].device = opened; }
  // How many are late. All others have ended, and nothing of them is used any more.
  size_t Read(std::span<DiskRead* const> reads, TimePoint deadline);
  uint32_t memory_alignment() const { return memory_alignment_; }

 private:
  static constexpr uint32_t kTails = 256;

  // False: it ends here, and `outcome` says why.
  bool Prepare(DiskRead* read, DiskRead::Waiter* waiter);
  // False: it is late.
  bool Await(DiskRead* read, DiskRead::Waiter* waiter, TimePoint deadline);
  // Waits until one more has ended, whichever: a slow one must not keep the drive from the others.
  // False: none is under way, or not in time.
  bool AwaitAny(DiskRead::Waiter* waiter, TimePoint deadline);
  static bool HasEnded(const DiskRead* read, DiskRead::Waiter* waiter);
  void Submit(std::span<DiskRead* const> reads, DiskRead::Waiter* waiter);
  void Landed(DiskRead* read);
  void Finish(DiskRead* read);
  void End(DiskRead* read, ReadOutcome outcome);
  std::byte* TakeTail();
  void GiveTail(std::byte* tail);

  std::vector<Part> parts_;
  Catalog* const catalog_;
  Counts* const counts_;
  uint32_t memory_alignment_ = 1;
  const AlignedBuffer tails_;
  std::mutex tails_mutex_;
  std::vector<std::byte*> free_tails_;
};

}  // namespace peercache::disk
