// Regions: what each region of one device is used for, and since when.
//
//   unknown -> free       nothing is in it (recovery)
//   unknown -> unread     its contents are to be read (recovery); pages are not found yet
//   unread -> closed      they have been
//   free -> open          Open: the log writes to it, under a new epoch
//   open -> closed        Close
//   closed, unread -> free   Free: its pages have left the catalog
//   closed -> unread      Forget: they have, and are on the device
//
// Regions are given up first in, first out: the lowest epoch first. A region whose pages are not
// yet in its contents blocks is not given up. Thread-safe; a search looks at all regions, some ten
// microseconds for a TiB, once per region that is written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

namespace peercache::disk {

class Regions {
 public:
  enum class State : uint8_t { kUnknown, kFree, kUnread, kOpen, kClosed };

  explicit Regions(uint32_t count) : regions_(count) {}

  uint32_t size() const { return static_cast<uint32_t>(regions_.size()); }

  // A free region, from now on open: the one that was given up first, so that reads that are under
  // way in another one may still end. `spare`: as many have to be left.
  std::optional<uint32_t> Open(uint64_t epoch, uint32_t spare) {
    const std::lock_guard lock(mutex_);
    if (free_ <= spare) return std::nullopt;
    std::optional<uint32_t> opened;
    for (uint32_t i = 0; i < size(); ++i)
      if (regions_[i].state == State::kFree &&
          (!opened || regions_[i].epoch < regions_[*opened].epoch))
        opened = i;
    if (!opened) return std::nullopt;
    regions_[*opened].state = State::kOpen;
    regions_[*opened].epoch = epoch;
    --free_;
    return opened;
  }
  void Close(uint32_t region) { Set(region, State::kClosed); }
  // Of `count` pages more (fewer) the contents are not on disk yet.
  void Owe(uint32_t region, int count) {
    const std::lock_guard lock(mutex_);
    regions_[region].owed += count;
  }
  // The one to be given up next.
  std::optional<uint32_t> Oldest() const {
    const std::lock_guard lock(mutex_);
    std::optional<uint32_t> oldest;
    for (uint32_t i = 0; i < size(); ++i) {
      const Region& region = regions_[i];
      if (region.owed != 0 || (region.state != State::kClosed && region.state != State::kUnread))
        continue;
      if (!oldest || region.epoch < regions_[*oldest].epoch) oldest = i;
    }
    return oldest;
  }
  void Free(uint32_t region) { Set(region, State::kFree); }
  void Forget(uint32_t region) {
    const std::lock_guard lock(mutex_);
    if (regions_[region].state == State::kClosed) regions_[region].state = State::kUnread;
  }
  void Found(uint32_t region, uint64_t epoch) {
    const std::lock_guard lock(mutex_);
    regions_[region].epoch = epoch;
    regions_[region].state = State::kUnread;
  }

  // The youngest first.
  std::vector<uint32_t> In(State state) const {
    const std::lock_guard lock(mutex_);
    std::vector<uint32_t> found;
    for (uint32_t i = 0; i < size(); ++i)
      if (regions_[i].state == state) found.push_back(i);
    std::ranges::sort(found, std::greater<>(), [&](uint32_t i) { return regions_[i].epoch; });
    return found;
  }
  State state(uint32_t region) const {
    const std::lock_guard lock(mutex_);
    return regions_[region].state;
  }
  // Changes when the region is written anew.
  uint64_t epoch(uint32_t region) const {
    const std::lock_guard lock(mutex_);
    return regions_[region].epoch;
  }
  uint32_t free() const {
    const std::lock_guard lock(mutex_);
    return free_;
  }

 private:
  struct Region {
    uint64_t epoch = 0;
    int32_t owed = 0;
    State state = State::kUnknown;
  };
  void Set(uint32_t region, State state) {
    const std::lock_guard lock(mutex_);
    if (state == State::kFree && regions_[region].state != State::kFree) ++free_;
    regions_[region].state = state;
  }

  mutable std::mutex mutex_;
  std::vector<Region> regions_;
  uint32_t free_ = 0;
};

}  // namespace peercache::disk
