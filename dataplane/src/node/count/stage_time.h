// StageTime: how long one call of an engine spent in one stage, which it may enter several times.
// One observation at the end of the call, none when the stage was not entered.
//
//   StageTime read(&counters->get_read);
//   ...
//   read.Add(Clock::now() - start);
#pragma once

#include "base/clock.h"
#include "node/count/latency.h"

namespace peercache {

class StageTime {
 public:
  explicit StageTime(LatencyHistogram* histogram) : histogram_(histogram) {}
  ~StageTime() {
    if (entered_) histogram_->Observe(spent_);
  }
  StageTime(const StageTime&) = delete;
  StageTime& operator=(const StageTime&) = delete;

  void Add(Duration spent) {
    spent_ += spent;
    entered_ = true;
  }

 private:
  LatencyHistogram* const histogram_;
  Duration spent_{};
  bool entered_ = false;
};

}  // namespace peercache
