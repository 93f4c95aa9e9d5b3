// RoomPlan: how much room is to be made, and for pages of which sizes. Pure: the time and what the
// pool holds come as arguments.
//
// An evicted slot is free only after a turnaround: its records are withdrawn, and a lease passes if
// readers were told of its page lately. So sets live on a reserve of slots that are free or on
// their way, and what it must hold is what sets take during one turnaround, of all evicted slots on
// average. The plan keeps that and a quarter more for each size of page. It follows a rising rate
// at once and a falling one slowly, because writers pause and come back. It doubles the reserve
// when a set found no slot nevertheless, because then the rate is more than was seen.
//
// The watermarks bound the reserve, as shares of the pool that pages may fill:
//
//   high   pages fill the pool up to here when sets are rare: a burst of the rest finds free slots
//   low    evictions leave pages at least this much, however fast sets come: a writer that needs
//          more is slowed down to what comes free, or refused
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/clock.h"
#include "pool/pool.h"

namespace peercache {

struct Watermarks {
  double high = 0.95;
  double low = 0.75;
};

class RoomPlan {
 public:
  struct Eviction {
    size_t length = 0;  // of the pages that need room
    size_t bytes = 0;   // of slots
  };

  // `turnaround`: what to expect until evictions have shown how long it takes.
  RoomPlan(Watermarks watermarks, Duration turnaround);

  // Sets found no slots for pages of this length; `refused` bytes of them have given up.
  void Unmet(size_t length, size_t refused);
  // Evicted slots will be free this long after they were chosen, on average.
  void Returning(Duration after);
  // What to evict now, for one round of upkeep. Most urgent first.
  std::vector<Eviction> Decide(TimePoint now, const PoolUse& use);

  // How fast sets may take slots until the next decision, in bytes per second; 0: unbounded. While
  // less than half of the reserve is free, it is what would use up the free part in a small part of
  // a turnaround: the less is left, the slower, so that sets come to agree with what comes back.
  double Pace(const PoolUse& use) const;

  // The reserve that the last decision aimed at.
  size_t target_bytes() const { return target_; }
  Duration turnaround() const { return turnaround_; }

 private:
  struct Demand {
    struct Sample {
      TimePoint at;
      uint64_t asked;  // bytes that were taken or refused by then
    };
    std::deque<Sample> samples;  // of one turnaround
    double need = 0;             // bytes of slots to have in reserve
    uint64_t refused = 0;
    bool unmet = false;  // since the last decision
  };
  void Update(const PoolUse::Size& size, TimePoint now, double fade, double floor);

  const Watermarks watermarks_;
  Duration turnaround_;
  TimePoint last_{};
  std::map<size_t, Demand> demands_;  // by PoolUse::Size::length
  size_t target_ = 0;
};

}  // namespace peercache
