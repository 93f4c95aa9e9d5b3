#include "transport/peer_health.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

TEST(PeerHealthTest, AFailureOpensTheBreakerUntilItsPauseIsOverAndAnAnswerClosesIt) {
  PeerHealth health;
  const TimePoint now = Clock::now();
  EXPECT_EQ(health.state(now), PeerHealth::State::kClosed);
  health.Failed(now);
  EXPECT_EQ(health.state(now), PeerHealth::State::kOpen);
  EXPECT_FALSE(health.Allows(now));
  const TimePoint later = now + PeerHealth::kFirstPause;
  EXPECT_EQ(health.state(later), PeerHealth::State::kHalfOpen);
  EXPECT_TRUE(health.Allows(later));
  health.Succeeded();
  EXPECT_EQ(health.state(later), PeerHealth::State::kClosed);
  EXPECT_EQ(health.trips(), 1u);
}

TEST(PeerHealthTest, PausesDoubleUpToALimit) {
  PeerHealth health;
  const TimePoint now = Clock::now();
  for (int failures = 0; failures < 20; ++failures) health.Failed(now);
  EXPECT_FALSE(health.Allows(now + PeerHealth::kLongestPause - milliseconds(1)));
  EXPECT_TRUE(health.Allows(now + PeerHealth::kLongestPause));
}

TEST(PeerHealthTest, WhoFailedIsSuspectUntilItHasAnsweredForAWhile) {
  PeerHealth health;
  const TimePoint now = Clock::now();
  EXPECT_FALSE(health.Suspect(now));
  health.Failed(now);
  EXPECT_TRUE(health.Suspect(now));
  EXPECT_TRUE(health.Suspect(now + 10 * PeerHealth::kLongestPause));
  health.Succeeded();
  EXPECT_TRUE(health.Suspect(now + PeerHealth::kRecovery - milliseconds(1))) << "comes and goes";
  EXPECT_FALSE(health.Suspect(now + PeerHealth::kRecovery));
  health.Failed(now);
  health.Reset();
  EXPECT_FALSE(health.Suspect(now)) << "another process";
}

}  // namespace
}  // namespace peercache
