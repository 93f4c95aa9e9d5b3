// The problem. Slots of several sizes share the pool's chunks. A class that needs room may have
// only pages that are read often, while chunks of another class hold pages that no engine reads.
//
// Each step compares two candidates and takes the older one:
//   own page   the next one of the class, in the order of its policy; its slot fits as it is
//   window     as many chunks in a row as a span of the class takes; as old as its newest page
// Windows come from a heap, which one pass over the table of chunks fills. That pass reads counts
// and times of spans, no slots. Slots are checked for pins and spared tenants only when their
// window is at the top of the heap. A chunk that has to stay is remembered (VictimSearch::stays),
// also for the next call, and no window with it is tried again. Windows are as long as a span that
// loses little to rounding. They are as short as one slot where that is room enough, and when no
// long one can go.
//
// Benefits: memory moves to the sizes that engines use now, and no size has a share to configure.
// Costs: the pass over chunks for each call that may take windows; a window drops up to all of its
// pages for one of another size.
//
// Rejected:
// - a fixed share of the pool for each size: a new model's pages would find it full of another's;
// - moving pages to make room in a row: their places are in records, by which readers READ;
// - evicting pages of other sizes one by one: hits are lost, and no slot fits until a span is
//   empty.
#include "pool/victims.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace peercache {
namespace {

// The windows of chunks that could be emptied for a class, oldest first.
class Windows {
 public:
  Windows(const SlotTable& table, const PoolShares& shares, SizeClass size_class, size_t chunks,
          VictimSearch* search)
      : table_(table),
        shares_(shares),
        size_class_(size_class),
        search_(search),
        gone_(table.chunk_count()) {
    search_->stays.resize(table.chunk_count());
    search_->looks = 0;
    search_->unfinished = false;
    SetLength(chunks);
  }

  void SetLength(size_t chunks) {
    chunks_ = chunks;
    heap_.clear();
    if (!table_.HasOthers(size_class_)) return;
    for (size_t first = 0; first + chunks <= table_.chunk_count(); ++first) {
      uint64_t newest = 0;
      if (!Passed(first) && CanGo(first, &newest)) heap_.push_back({newest, first});
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    oldest_can_go_ = false;
  }

  // Drops windows that have to stay or that share a span with one taken; false when none is left,
  // or the search has to go on another time. Looks at the slots of a window once: nothing is pinned
  // while the caller has the mutex.
  bool Oldest(uint64_t* newest_use) {
    while (!heap_.empty() && !oldest_can_go_) {
      if (Passed(heap_.front().second)) {
        Pop();
      } else if (search_->looks >= VictimSearch::kMostLooks) {
        search_->unfinished = true;
        return false;
      } else {
        oldest_can_go_ = !Stays(heap_.front().second);
      }
    }
    if (heap_.empty()) return false;
    *newest_use = heap_.front().first;
    return true;
  }

  void Take(const std::function<void(Slot*)>& take) {
    ForEachSpan(heap_.front().second, [&](Span& span) {
      for (size_t i = 0; i < span.chunks; ++i) gone_[span.first_chunk + i] = true;
      for (uint32_t i = 0; i < span.slot_count; ++i)
        if (span.slots[i].state == SlotState::kReady) take(&span.slots[i]);
      return true;
    });
    Pop();
  }

 private:
  // Until fn returns false; whether it never did.
  template <typename Fn>
  bool ForEachSpan(size_t first, const Fn& fn) const {
    for (size_t chunk = first; chunk < first + chunks_; ++chunk) {
      Span* span = table_.SpanOf(chunk);
      if (span == nullptr || (chunk > first && span == table_.SpanOf(chunk - 1))) continue;
      if (!fn(*span)) return false;
    }
    return true;
  }
  // A window without ready pages is no help: it is free already, or will be without us.
  bool CanGo(size_t first, uint64_t* newest) const {
    bool pages = false;
    const bool can = ForEachSpan(first, [&](Span& span) {
      if (span.Count(SlotState::kReady) != 0) {
        pages = true;
        *newest = std::max(*newest, span.newest_use);
      }
      return span.size_class != size_class_ && span.Count(SlotState::kWriting) == 0;
    });
    return can && pages;
  }
  // If so, it is passed from now on.
  bool Stays(size_t first) {
    return !ForEachSpan(first, [&](Span& span) {
      for (uint32_t i = 0; i < span.slot_count; ++i) {
        ++search_->looks;
        if (!Stays(span.slots[i])) continue;
        for (size_t chunk = 0; chunk < span.chunks; ++chunk)
          search_->stays[span.first_chunk + chunk] = true;
        return false;
      }
      return true;
    });
  }
  bool Stays(const Slot& slot) const {
    return slot.pinned() || (slot.state == SlotState::kReady && !slot.replica &&
                             shares_.Spared(static_cast<TenantNumber>(slot.tenant)));
  }
  bool Passed(size_t first) const {
    for (size_t chunk = first; chunk < first + chunks_; ++chunk)
      if (gone_[chunk] || search_->stays[chunk]) return true;
    return false;
  }
  void Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    oldest_can_go_ = false;
  }

  const SlotTable& table_;
  const PoolShares& shares_;
  const SizeClass size_class_;
  VictimSearch* const search_;
  size_t chunks_ = 0;
  std::vector<bool> gone_;
  std::vector<std::pair<uint64_t, size_t>> heap_;  // newest use, first chunk
  bool oldest_can_go_ = false;                     // known of the front
};

}  // namespace

size_t TakeVictims(const SlotTable& table, const PoolShares& shares, EvictionOrder* own,
                   size_t bytes, size_t most_pages, SizeClass size_class, VictimSearch* search,
                   const std::function<void(Slot*)>& take) {
  const size_t slot_bytes = SlotBytes(size_class);
  const SlotTable::RunLength run = table.RunLengthOf(size_class);
  const auto room = [&](size_t chunks) {
    return chunks * table.chunk_bytes() / slot_bytes * slot_bytes;
  };
  size_t chunks = bytes <= room(run.least) ? run.least : run.best;
  Windows windows(table, shares, size_class, chunks, search);
  size_t gained = 0, pages = 0;
  const auto take_counted = [&](Slot* slot) {
    take(slot);
    ++pages;
  };
  while (gained < bytes && pages < most_pages) {
    Slot* next = own->Next();
    uint64_t window_use = 0;
    const bool window = windows.Oldest(&window_use);
    if (search->unfinished) break;  // before a page of its own: a window may be older
    if (window && (next == nullptr || window_use < own->Age())) {
      windows.Take(take_counted);
      gained += room(chunks);
    } else if (next != nullptr) {
      take_counted(next);
      gained += slot_bytes;
    } else if (chunks > run.least) {  // no long window can go: short ones hold at least one slot
      chunks = run.least;
      windows.SetLength(chunks);
    } else {
      break;
    }
  }
  return gained;
}

}  // namespace peercache
