// LatencyHistogram: how long something took, in buckets that double, for /metrics.
//
//   counters.get_read.Observe(Clock::now() - start);
//
// Thread-safe, lock-free, allocates nothing: an observation is two relaxed additions, once per call
// and stage, never per page. A scrape that runs beside observations may see the sum of one more or
// less than the buckets; the count is made of the buckets, so these two always agree.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/latency_counts.h"

namespace peercache {

// On its own cache lines, so that engines which read do not slow down those which write.
class alignas(64) LatencyHistogram : public LatencyBuckets {
 public:
  void Observe(Duration took) {
    const int64_t nanos = std::chrono::nanoseconds(took).count();
    buckets_[BucketOf(nanos)].fetch_add(1, std::memory_order_relaxed);
    sum_nanos_.fetch_add(nanos, std::memory_order_relaxed);
  }

  // Observations in one bucket, the last of which is without an upper bound.
  uint64_t InBucket(size_t bucket) const {
    return buckets_[bucket].load(std::memory_order_relaxed);
  }
  LatencyCounts counts() const {
    LatencyCounts counts;
    for (size_t bucket = 0; bucket <= kBounds; ++bucket) counts.buckets[bucket] = InBucket(bucket);
    counts.sum_nanos = sum_nanos_.load(std::memory_order_relaxed);
    return counts;
  }

 private:
  std::array<std::atomic<uint64_t>, kBounds + 1> buckets_{};
  std::atomic<int64_t> sum_nanos_{0};
};

}  // namespace peercache
