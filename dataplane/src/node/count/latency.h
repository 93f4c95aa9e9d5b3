// LatencyHistogram: how long something took, in buckets that double, for /metrics.
//
//   counters.get_read.Observe(Clock::now() - start);
//
// Thread-safe, lock-free, allocates nothing: an observation is two relaxed additions, once per call
// and stage, never per page. A scrape that runs beside observations may see the sum of one more or
// less than the buckets; the count is made of the buckets, so these two always agree.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace peercache {

// On its own cache lines, so that engines which read do not slow down those which write.
class alignas(64) LatencyHistogram {
 public:
  // Upper bounds 10 us, 20 us, ... 5.2 s: from a local copy of a small page to past the time that
  // any call may take; and one bucket for what took longer still.
  static constexpr size_t kBounds = 20;
  static constexpr int64_t kFirstBoundNanos = 10'000;

  static constexpr double BoundSeconds(size_t bucket) {
    return static_cast<double>(kFirstBoundNanos << bucket) * 1e-9;
  }
  // A bound belongs to its own bucket, as Prometheus has it.
  static constexpr size_t BucketOf(int64_t nanos) {
    const auto beyond = static_cast<uint64_t>(std::max<int64_t>(nanos - 1, 0) / kFirstBoundNanos);
    return std::min<size_t>(static_cast<size_t>(std::bit_width(beyond)), kBounds);
  }

  void Observe(Duration took) {
    const int64_t nanos = std::chrono::nanoseconds(took).count();
    buckets_[BucketOf(nanos)].fetch_add(1, std::memory_order_relaxed);
    sum_nanos_.fetch_add(nanos, std::memory_order_relaxed);
  }

  // Observations in one bucket, the last of which is without an upper bound.
  uint64_t InBucket(size_t bucket) const {
    return buckets_[bucket].load(std::memory_order_relaxed);
  }
  double SumSeconds() const {
    return static_cast<double>(sum_nanos_.load(std::memory_order_relaxed)) * 1e-9;
  }

 private:
  std::array<std::atomic<uint64_t>, kBounds + 1> buckets_{};
  std::atomic<int64_t> sum_nanos_{0};
};

}  // namespace peercache
