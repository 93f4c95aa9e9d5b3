// Catalog: which pages are on disk, for all threads: the index, what was cleared, and who is told.
//
// A page is found from the moment that it is stored until it is cleared, removed, replaced by a
// younger one of its key, or dropped with its region. A cleared page is in the index until a pass
// has erased it; till then who looks it up compares its sequence with the clears. One mutex guards
// all; it is held for a fraction of a microsecond per key, and for at most one block of the index
// in passes over all.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/sequence.h"
#include "base/tag.h"
#include "disk/clear_list.h"
#include "disk/index.h"
#include "disk/page_observer.h"

namespace peercache::disk {

class Catalog {
 public:
  // `observer` may be null.
  Catalog(uint64_t pages, const std::vector<uint32_t>& regions, ClearList clears,
          Sequence* sequence, PageObserver* observer)
      : index_(pages, regions),
        clears_(std::move(clears)),
        sequence_(sequence),
        observer_(observer) {}
  bool ok() const { return index_.ok(); }

  // pages[i] is that of keys[i]; length 0: not there.
  void Find(std::span<const Key> keys, std::span<DiskPage> pages) const;
  bool Contains(const Key& key, uint64_t sequence) const;

  enum class Outcome : uint8_t { kStored, kMoved, kCleared, kOlder, kSame, kFull };
  // Does not tell the observer of the page itself: see Tell. `moves`: the page is there already, at
  // another place, and keeps its note; one that has gone meanwhile stays away (kOlder).
  Outcome Store(const DiskPage& page, bool moves);
  // Call it for the keys of many pages before their Store: the misses of the processor's cache then
  // overlap.
  void Prefetch(const Key& key) const { index_.Prefetch(key); }
  void Tell(std::span<const DiskPage> stored) {
    if (observer_ != nullptr && !stored.empty()) observer_->Stored(stored);
  }
  // A device that was off is back with its pages.
  void TellBack() {
    if (observer_ != nullptr) observer_->Back();
  }
  // For a page whose bytes are not right. False: it was not there any more, or not at that place,
  // so the bytes there may be others'.
  bool Remove(const DiskPage& page);
  // False: the page was cleared.
  bool SetRead(const DiskPage& page);
  // note = change(note). False: the page has gone. `change` runs under the lock.
  bool UpdateNote(const Key& key, uint64_t sequence,
                  const std::function<uint32_t(uint32_t)>& change);
  // All pages that leave with their region; how many.
  uint64_t DropRegion(RegionId region);
  // Those of the region that were read since they were written, block by block (Index::NextBlock).
  uint32_t ReadPages(RegionId region, uint32_t block, std::vector<DiskPage>* pages) const;
  // Fills `pages` with a few of all, and moves `at`, 0 at first, behind them. False: no more.
  bool Next(uint64_t* at, std::vector<DiskPage>* pages) const;

  // From now on no page of the tags that was stored, or taken for writing, is found.
  // The caller makes it last: clears(). Its pages leave with the next Sweep.
  void Clear(TagRange tags, uint64_t epoch, std::span<const ForgottenClears> forgotten = {});
  // What a device knows that was opened later.
  void Merge(const ClearList& clears);
  ClearList clears() const;
  // Erases what was cleared since the last pass, and tells the observer; by one thread at a time.
  void Sweep();
  // Until nothing that was cleared before the call is in the index, or the deadline.
  void AwaitSwept(TimePoint deadline);

  uint64_t size() const;
  uint64_t capacity() const { return index_.capacity(); }
  uint64_t free_pages() const;

 private:
  // Under the lock.
  bool Dead(const DiskPage& page) const {
    return cleared_ != swept_ && clears_.Dead(page.tag, page.sequence);
  }
  void EraseDead();
  // Without the lock, by who may wait.
  void TellDropped(std::span<const DiskPage> pages) const;

  mutable std::mutex mutex_;
  std::condition_variable swept_cv_;
  Index index_;
  ClearList clears_;
  uint64_t cleared_ = 0;  // clears so far
  uint64_t swept_ = 0;    // of these, whose pages are out of the index
  bool sweeping_ = false;
  Sequence* const sequence_;
  PageObserver* const observer_;
};

}  // namespace peercache::disk
