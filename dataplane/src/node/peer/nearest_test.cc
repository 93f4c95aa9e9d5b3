// Which of several holders is the nearest.
#include "node/peer/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace peercache {
namespace {

using std::chrono::microseconds;

constexpr Way kRdma{.rdma = true}, kTcp{}, kHere{.here = true};

constexpr Way Far(Way way, int us) {
  way.round_trip = microseconds(us);
  return way;
}
constexpr Way Busy(Way way, uint64_t mib) {
  way.under_way = mib << 20;
  return way;
}
constexpr Way Liked(Way way) {
  way.preference = 1;
  return way;
}

TEST(NearestTest, Table) {
  const struct {
    const char* what;
    std::vector<Way> ways;
    size_t nearest;
  } cases[] = {
      {"alone", {kTcp}, 0},
      {"equals: by preference", {kTcp, Liked(kTcp), kTcp}, 1},
      {"RDMA before TCP", {Liked(kTcp), kRdma}, 1},
      {"RDMA before this machine over TCP", {Liked(kHere), kRdma}, 1},
      {"RDMA on this machine before RDMA elsewhere",
       {Liked(kRdma), {.rdma = true, .here = true}},
       1},
      {"this machine before another", {Liked(kTcp), kHere}, 1},
      {"this machine though it answers later", {Liked(Far(kTcp, 100)), Far(kHere, 50'000)}, 1},
      {"RDMA though it answers later", {Liked(Far(kTcp, 100)), Far(kRdma, 50'000)}, 1},
      {"the shorter round trip", {Liked(Far(kTcp, 5000)), Far(kTcp, 100)}, 1},
      {"about the same round trip", {Liked(Far(kTcp, 600)), Far(kTcp, 100)}, 0},
      {"twice a long one", {Liked(Far(kTcp, 20'000)), Far(kTcp, 10'000)}, 0},
      {"far more than twice a long one", {Liked(Far(kTcp, 30'000)), Far(kTcp, 10'000)}, 1},
      {"what is not measured may be near", {Liked(kTcp), Far(kTcp, 100)}, 0},
      {"nor does it make others far", {kTcp, Liked(Far(kTcp, 5000))}, 1},
      {"the far ones do not count", {Far(kTcp, 100), Far(kTcp, 9000), Liked(Far(kTcp, 120))}, 2},
      {"the less busy", {Liked(Busy(kTcp, 100)), kTcp}, 1},
      {"about as busy", {Liked(Busy(kTcp, 130)), Busy(kTcp, 100)}, 0},
      {"near and busy before far and idle", {Liked(Far(kTcp, 9000)), Busy(Far(kTcp, 100), 500)}, 1},
      {"more than are looked at", std::vector<Way>(3 * kMostWays, kTcp), 0},
  };
  for (const auto& c : cases) EXPECT_EQ(Nearest(c.ways), c.nearest) << c.what;
}

TEST(NearestTest, AShorterRoundTripCountsAtOnceALongerOneByAndBy) {
  RoundTrip trip;
  EXPECT_EQ(trip.get(), Duration::zero());
  trip.Took(microseconds(800));
  trip.Took(microseconds(100));
  EXPECT_EQ(trip.get(), microseconds(100));
  trip.Took(microseconds(900));
  EXPECT_EQ(trip.get(), microseconds(200)) << "one that was delayed";
  for (int i = 0; i < 40; ++i) trip.Took(microseconds(900));
  EXPECT_GT(trip.get(), microseconds(850)) << "it has moved away";
  trip.Forget();
  EXPECT_EQ(trip.get(), Duration::zero());
}

TEST(NearestTest, WhatIsUnderWayEndsWithIt) {
  std::atomic<uint64_t> total{0};
  {
    UnderWay first(&total, 100);
    std::vector<UnderWay> more;
    for (int i = 0; i < 10; ++i) more.emplace_back(&total, 10);
    EXPECT_EQ(total, 200u);
    more.erase(more.begin());
    EXPECT_EQ(total, 190u);
    first = UnderWay(&total, 5);
    EXPECT_EQ(total, 95u);
  }
  EXPECT_EQ(total, 0u);
}

}  // namespace
}  // namespace peercache
