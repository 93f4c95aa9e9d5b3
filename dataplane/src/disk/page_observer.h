// PageObserver: whoever wants to know which pages are on disk.
#pragma once

#include <span>

#include "disk/disk_page.h"

namespace peercache::disk {

// Hears which pages come and go. Called by threads of the tier, without locks, in no certain order:
// whoever acts on what it hears asks Contains first. Must not wait: reads and writes do meanwhile.
class PageObserver {
 public:
  virtual ~PageObserver() = default;
  virtual void Stored(std::span<const DiskPage> pages) = 0;
  virtual void Dropped(std::span<const DiskPage> pages) = 0;
  // Called in between by who drops many pages, on a thread that may wait for a moment.
  virtual void AwaitTold() = 0;
  // Pages that were not found while their drive was off are found again.
  virtual void Back() = 0;
};

}  // namespace peercache::disk
