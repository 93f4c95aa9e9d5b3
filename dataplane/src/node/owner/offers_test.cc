#include "node/owner/offers.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

using std::chrono::seconds;

TEST(Offers, ComeLessOftenWhileTheyAreRefused) {
  Offers offers(seconds(10));
  TimePoint now{};
  EXPECT_FALSE(offers.Due(now + std::chrono::hours(1))) << "nothing was refused";
  Duration waited[9];
  for (Duration& wait : waited) {
    offers.Refused();
    const TimePoint refused = now;
    while (!offers.Due(now)) now += seconds(1);
    wait = now - refused;
    offers.PassBegins(now);
    EXPECT_FALSE(offers.Due(now));
    offers.Refused();
    offers.PassEnds();
  }
  EXPECT_EQ(waited[0], seconds(10));
  EXPECT_EQ(waited[1], seconds(20));
  EXPECT_EQ(waited[8], Offers::kSeldom);
  while (!offers.Due(now)) now += seconds(1);
  offers.PassBegins(now);
  offers.PassEnds();
  EXPECT_FALSE(offers.Due(now + std::chrono::hours(1)));
  offers.Refused();
  EXPECT_FALSE(offers.Due(now));
  EXPECT_TRUE(offers.Due(now + seconds(10))) << "as at first";
}

// What is refused during a pass is not forgotten with it. That shards are full for longer, only
// those say that were due.
TEST(Offers, ARefusalDuringAnyPassCounts) {
  Offers offers(seconds(10));
  for (int pass = 0; pass < 100; ++pass) {
    offers.PassBegins(TimePoint{});
    offers.Refused();
    offers.PassEnds();
  }
  EXPECT_FALSE(offers.Due(TimePoint{}));
  EXPECT_TRUE(offers.Due(TimePoint{} + seconds(10)));
}

}  // namespace
}  // namespace peercache
