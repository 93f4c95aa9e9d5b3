// History: the last hour in steps of ten seconds, for the dashboard. Bounded: 360 steps of less
// than a KiB each.
//
//   History history;
//   history.Note(wall_clock, flow, pool_used);   // at the end of each step
//   history.Json();                              // in columns
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "wire/activity.h"

namespace peercache {

class History {
 public:
  using Seconds = std::chrono::sys_time<std::chrono::seconds>;
  static constexpr std::chrono::seconds kStep{10};
  static constexpr size_t kSteps = 360;

  // `flow`: of `length` until `at`.
  void Note(Seconds at, std::chrono::milliseconds length, const Flow& flow, uint64_t pool_used);
  size_t size() const { return steps_.size(); }
  // Columns of equal length, the oldest first; times in seconds since 1970. Where no call was made,
  // its quantiles are null. And sums over all steps.
  nlohmann::json Json() const;

 private:
  struct Step {
    Seconds at;
    double seconds;
    Flow flow;
    uint64_t pool_used;
  };
  const Step& Nth(size_t n) const { return steps_[(oldest_ + n) % steps_.size()]; }

  std::vector<Step> steps_;  // a ring when it is full
  size_t oldest_ = 0;
};

}  // namespace peercache
