// Keeper: the thread of one device that may wait. It recovers what is on the device, and keeps
// regions free for the log: it gives up the oldest region, after it has written those of its pages
// anew that were read since they were written (at most half of a region, or nothing would ever
// leave). It sweeps cleared pages out of the catalog, whichever device they are on. It tries a
// device that is off again. When that stays off, all pages of it leave the catalog; they are
// recovered when it is back.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "disk/catalog.h"
#include "disk/counts.h"
#include "disk/device.h"
#include "disk/log.h"
#include "disk/recovery.h"
#include "disk/regions.h"

namespace peercache::disk {

class Keeper {
 public:
  // `may_reinsert` is asked before each page that is written anew, with its bytes. `rejoin` has the
  // device's superblocks say what has happened while it was off.
  Keeper(uint16_t number, const Geometry& geometry, Device* device, Regions* regions,
         Catalog* catalog, Log* log, Counts* counts, Recovery recovery,
         std::function<bool(uint64_t)> may_reinsert, std::function<Status()> rejoin);
  ~Keeper() { Stop(); }
  Status Start();
  void Stop();
  // The log has found no free region, or pages were cleared.
  void Wake();

  // Regions whose pages are found, of those that had any; equal when recovery is done.
  uint32_t regions_read() const { return read_.load(std::memory_order_relaxed); }
  uint32_t regions_found() const { return found_.load(std::memory_order_relaxed); }
  bool recovered() const { return recovered_.load(std::memory_order_acquire); }

 private:
  // One is for pages that move, and one is being filled while they do.
  static constexpr uint32_t kFreeRegions = 3;

  void Run();
  // Of all that the device has; goes on where it was when the device went off.
  void Recover();
  void WhileOff();
  bool ShortOfRoom() const;
  void MakeRoom();
  void GiveUp(uint32_t region);
  // False: no more of them.
  bool Reinsert(const DiskPage& page, Transfer* transfer);
  bool stopping() const { return stop_.load(std::memory_order_relaxed); }

  const uint16_t number_;
  const Geometry geometry_;
  Device* const device_;
  Regions* const regions_;
  Catalog* const catalog_;
  Log* const log_;
  Counts* const counts_;
  Recovery recovery_;
  const std::function<bool(uint64_t)> may_reinsert_;
  const std::function<Status()> rejoin_;
  bool probed_ = false;
  TimePoint drop_at_{};
  std::atomic<uint32_t> read_{0}, found_{0};
  std::atomic<bool> recovered_{false}, stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool wanted_ = false;
  std::thread thread_;
};

}  // namespace peercache::disk
