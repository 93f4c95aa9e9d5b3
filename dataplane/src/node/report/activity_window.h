// ActivityWindow: what this node did in about the last ten seconds, out of a look at its counters
// once a second.
//
//   window.Note(now, {FlowOf(counters, evictions), peers, rails});
//   window.Latest(machine);   // an Activity
//
// Not thread-safe. Costs memory for eleven looks: the peers that pages were read from, 16 bytes for
// each, and the rails.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "wire/activity.h"

namespace peercache {

// Since the start of the node.
struct Totals {
  Flow flow;
  std::vector<Activity::Source> sources;  // of bytes above 0, in any order
  std::vector<Activity::Rail> rails;
};

class ActivityWindow {
 public:
  static constexpr Duration kWindow = std::chrono::seconds(10);

  void Note(TimePoint now, Totals totals);
  // Over kWindow, and the time between two looks at most; empty before the second look.
  std::optional<Activity> Latest(uint32_t machine) const;

 private:
  struct Look {
    TimePoint at;
    Totals totals;
  };
  std::deque<Look> looks_;  // the oldest first
};

}  // namespace peercache
