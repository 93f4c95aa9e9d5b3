// How long something took, in buckets that double. LatencyCounts is what one thread counts, or what
// was read at one time; node/count/latency.h has the one that threads share.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "base/clock.h"

namespace peercache {

struct LatencyBuckets {
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
};

struct LatencyCounts : LatencyBuckets {
  std::array<uint64_t, kBounds + 1> buckets{};  // the last is without an upper bound
  int64_t sum_nanos = 0;

  void Observe(Duration took) {
    const int64_t nanos = std::chrono::nanoseconds(took).count();
    ++buckets[BucketOf(nanos)];
    sum_nanos += nanos;
  }
  uint64_t count() const { return std::accumulate(buckets.begin(), buckets.end(), uint64_t{0}); }
  double SumSeconds() const { return static_cast<double>(sum_nanos) * 1e-9; }
};

}  // namespace peercache
