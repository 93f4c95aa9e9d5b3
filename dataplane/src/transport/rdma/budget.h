// RailBudget: how many bytes of READs all calls of a node together may have under way on one rail.
//
// A few MiB fill a port's link. What is asked for beyond that waits in the switch before the port,
// and makes it pause, or mark, whatever else goes there: the collectives of the engine that uses
// the same port, for one.
//
//   if (budget.TryTake(bytes)) ...post the READ...     // budget.Give(bytes) when it is complete
//   else budget.StandInLine(&place, bytes);            // until place.granted(): the bytes are
//   taken
//
// First come, first served: while anybody stands in line, TryTake refuses. So a call with hundreds
// of pages does not starve one that came after it with a single page, or before it. What no engine
// waits for, such as pages of a node that drains, takes what is left over (TryTakeBehind): enough
// for the whole link while it is alone, and nothing while calls fill it.
//
// Costs: one atomic exchange for each TryTake and one addition for each Give while nobody stands in
// line; else a lock.
//
// Thread-safe. A place is used by one thread at a time, and outlived by the budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

namespace peercache::rdma {

class RailBudget {
 public:
  // What 400 Gb/s carry in 168 us: eight times what is under way over a path of 20 us, so that a
  // holder that is slow for a moment leaves no gap.
  static constexpr uint64_t kBytes = 8 << 20;
  explicit RailBudget(uint64_t bytes = kBytes)
      : bytes_(static_cast<int64_t>(bytes)), free_(static_cast<int64_t>(bytes)) {}

  bool TryTake(uint64_t bytes);
  // While half of the budget is left with it; or when nothing is taken.
  bool TryTakeBehind(uint64_t bytes);
  // Of what cannot wait, such as the header behind a page; may go beyond the budget.
  void Take(uint64_t bytes);
  void Give(uint64_t bytes);

  class Place {
   public:
    Place() = default;
    ~Place() { Leave(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    bool in_line() const { return budget_ != nullptr && !granted(); }
    bool granted() const { return granted_.load(std::memory_order_acquire); }
    uint64_t bytes() const { return bytes_; }
    // The granted bytes, to be given back when the READ is complete.
    void Use();
    // Leaves the line, or gives back what was granted.
    void Leave();
    // An event counter to add to when the bytes are granted; -1: none any more. False: they are
    // granted already.
    bool WakeBy(int event);

   private:
    friend class RailBudget;
    RailBudget* budget_ = nullptr;
    uint64_t bytes_ = 0;
    int event_ = -1;  // under the budget's lock
    std::atomic<bool> granted_{false};
  };
  // `bytes` are at most the budget. The place is in no line.
  void StandInLine(Place* place, uint64_t bytes);

  // Bytes taken: now, and the most there ever were.
  uint64_t taken() const { return static_cast<uint64_t>(bytes_ - free_.load()); }
  uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  // When so much is left afterwards.
  bool TakeFree(uint64_t bytes, int64_t left = 0);
  void NotePeak(int64_t free);
  void Serve();

  const int64_t bytes_;
  std::atomic<int64_t> free_;  // below 0 by what could not wait
  std::atomic<uint64_t> peak_{0};
  std::atomic<uint32_t> in_line_{0};
  std::mutex mutex_;
  std::deque<Place*> line_;
};

}  // namespace peercache::rdma
