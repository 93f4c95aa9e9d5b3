// Offers: when records that a full shard has refused are offered again.
//
// A pass over all pages finds them, as no note says that a shard has them. While shards stay full,
// passes come less and less often.
//
// Refused may be called from any thread, the others from the one that makes the passes.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/clock.h"

namespace peercache {

class Offers {
 public:
  // A pass over 100 million pages on disk takes 25 s.
  static constexpr Duration kSeldom = std::chrono::minutes(10);

  explicit Offers(Duration often) : often_(often), wait_(often) {}

  void Refused() { refused_.store(true, std::memory_order_relaxed); }
  // Whether it is time for a pass.
  bool Due(TimePoint now) {
    if (at_ == TimePoint::max() && refused_.load(std::memory_order_relaxed)) at_ = now + wait_;
    return now >= at_;
  }
  // What is refused from here on waits for another pass. Passes that come for other reasons, as
  // many as they may be, say nothing of how long shards have been full.
  void PassBegins(TimePoint now) {
    refused_.store(false, std::memory_order_relaxed);
    due_ = now >= at_;
    at_ = TimePoint::max();
  }
  void PassEnds() {
    if (!refused_.load(std::memory_order_relaxed))
      wait_ = often_;
    else if (due_)
      wait_ = std::min(2 * wait_, kSeldom);
  }

 private:
  const Duration often_;
  Duration wait_;
  std::atomic<bool> refused_{false};
  TimePoint at_ = TimePoint::max();
  bool due_ = false;  // the present pass was
};

}  // namespace peercache
