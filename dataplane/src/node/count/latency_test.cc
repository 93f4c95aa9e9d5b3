#include "node/count/latency.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace peercache {
namespace {

using std::chrono::nanoseconds;

TEST(LatencyHistogramTest, EveryBoundIsInTheBucketItEnds) {
  int64_t bound = LatencyHistogram::kFirstBoundNanos;
  for (size_t b = 0; b < LatencyHistogram::kBounds; ++b, bound *= 2) {
    EXPECT_EQ(LatencyHistogram::BucketOf(bound), b);
    EXPECT_EQ(LatencyHistogram::BucketOf(bound + 1), b + 1);
    EXPECT_DOUBLE_EQ(LatencyHistogram::BoundSeconds(b), static_cast<double>(bound) * 1e-9);
  }
}

TEST(LatencyHistogramTest, ExtremesHaveAPlace) {
  EXPECT_EQ(LatencyHistogram::BucketOf(0), 0u);
  EXPECT_EQ(LatencyHistogram::BucketOf(-5), 0u);
  EXPECT_EQ(LatencyHistogram::BucketOf(INT64_MAX), LatencyHistogram::kBounds);
}

TEST(LatencyHistogramTest, NothingIsLostBetweenThreads) {
  LatencyHistogram histogram;
  constexpr int kThreads = 4, kEach = 10'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) histogram.Observe(nanoseconds(15'000));
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(histogram.InBucket(1), uint64_t{kThreads} * kEach);
  EXPECT_EQ(histogram.counts().count(), uint64_t{kThreads} * kEach);
  EXPECT_DOUBLE_EQ(histogram.counts().SumSeconds(), kThreads * kEach * 15e-6);
}

}  // namespace
}  // namespace peercache
