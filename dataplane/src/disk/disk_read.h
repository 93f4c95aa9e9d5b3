// DiskRead: one read of a page, as its caller keeps it. reads.h says how it goes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/key.h"
#include "disk/counts.h"
#include "disk/disk_page.h"
#include "disk/io.h"

namespace peercache::disk {

class Reads;

struct DiskRead {
  // ---- of the caller
  Key key;
  // At a multiple of the tier's memory_alignment(); at least as long as the page. What lies behind
  // the page, up to the next multiple of kBlock, may be overwritten.
  std::span<std::byte> memory;
  // Only after kLate, once: by the device's thread. Must not wait.
  void (*landed)(DiskRead* read) = nullptr;
  void* context = nullptr;

  // ---- the result
  ReadOutcome outcome = ReadOutcome::kAbsent;
  DiskPage page;  // of which `memory` has the bytes, when it is a hit

 private:
  friend class Reads;
  struct Waiter {
    std::mutex mutex;
    std::condition_variable ended;
    const DiskRead* awaited = nullptr;  // null: any
    uint32_t landed = 0;                // reads that have ended_
    uint32_t begun = 0, replaced = 0;   // of the caller: reads begun, and landings that made room
  };
  IoRequest request_;
  Reads* reads_ = nullptr;
  std::atomic<Waiter*> waiter_{nullptr};
  bool ended_ = false;  // under the waiter's mutex
  bool begun_ = false;
  std::byte* tail_ = nullptr;  // where the last block goes; nullptr: to `memory`
};

}  // namespace peercache::disk
