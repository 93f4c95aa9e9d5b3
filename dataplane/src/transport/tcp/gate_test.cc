#include "transport/tcp/gate.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <thread>
#include <vector>

namespace peercache {
namespace {

using namespace std::chrono_literals;

Source From(const char* text) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    return SourceOf(reinterpret_cast<const sockaddr*>(&v4));
  }
  EXPECT_EQ(inet_pton(AF_INET6, text, &v6.sin6_addr), 1) << text;
  v6.sin6_family = AF_INET6;
  return SourceOf(reinterpret_cast<const sockaddr*>(&v6));
}

const TimePoint kStart = TimePoint(100s);

TEST(GateTest, ASourceIsAnAddressOrTheNetworkOfAHost) {
  EXPECT_NE(From("10.0.0.1"), From("10.0.0.2"));
  EXPECT_EQ(From("10.0.0.1"), From("::ffff:10.0.0.1"));
  EXPECT_EQ(From("fd00:1:2:3::1"), From("fd00:1:2:3:ffff::2"));
  EXPECT_NE(From("fd00:1:2:3::1"), From("fd00:1:2:4::1"));
}

TEST(GateTest, StrangersAreBoundedPerSource) {
  Gate gate({.strangers_per_source = 2});
  const Source one = From("10.0.0.1");
  auto first = gate.Admit(one, kStart);
  auto second = gate.Admit(one, kStart);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(gate.Admit(one, kStart));
  EXPECT_TRUE(gate.Admit(From("10.0.0.2"), kStart)) << "another source must not suffer";
  first.reset();  // greeted
  EXPECT_TRUE(gate.Admit(one, kStart));
  EXPECT_EQ(gate.stats().turned_away_strangers, 1u);
}

TEST(GateTest, OneSourceDoesNotFillTheLog) {
  Gate gate({.lines = {60s, 2}});
  auto one = gate.Admit(From("10.0.0.1"), kStart);
  ASSERT_TRUE(one);
  EXPECT_TRUE(one->TakeLine(kStart) && one->TakeLine(kStart));
  EXPECT_FALSE(one->TakeLine(kStart + 59s));
  auto again = gate.Admit(From("10.0.0.1"), kStart + 59s);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->TakeLine(kStart + 59s)) << "it is the same source";
  auto other = gate.Admit(From("10.0.0.2"), kStart);
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->TakeLine(kStart)) << "another source must be heard of";
  EXPECT_TRUE(one->TakeLine(kStart + 61s));
}

TEST(GateTest, ASourceThatFailsTooOftenWaits) {
  Gate gate({.failures = {100ms, 5}});
  const Source bad = From("10.0.0.1");
  for (int i = 0; i < 5; ++i) {
    auto visit = gate.Admit(bad, kStart);
    ASSERT_TRUE(visit) << i;
    visit->Failed(kStart);
  }
  EXPECT_FALSE(gate.Admit(bad, kStart));
  EXPECT_TRUE(gate.Admit(From("10.0.0.2"), kStart));
  EXPECT_FALSE(gate.Admit(bad, kStart + 99ms));
  auto again = gate.Admit(bad, kStart + 101ms);
  ASSERT_TRUE(again) << "one more attempt has drained";
  again->Failed(kStart + 101ms);
  EXPECT_FALSE(gate.Admit(bad, kStart + 101ms));
  EXPECT_TRUE(gate.Admit(bad, kStart + 1s));
  EXPECT_EQ(gate.stats().turned_away_failures, 3u);
  EXPECT_EQ(gate.stats().failures, 6u);
}

TEST(GateTest, AWrongTokenOnOneNodeDoesNotShutOutItsNeighbours) {
  // Two attempts a second for an hour from one address, with the bounds of production.
  Gate gate(GateOptions{});
  const Source host = From("10.0.0.1");
  for (int i = 0; i < 7200; ++i) {
    auto visit = gate.Admit(host, kStart + i * 500ms);
    ASSERT_TRUE(visit) << i;
    visit->Failed(kStart + i * 500ms);
  }
}

TEST(GateTest, SourcesAreForgottenAndBounded) {
  Gate gate({.strangers_per_source = 1, .failures = {100ms, 2}, .max_sources = 2});
  auto held = gate.Admit(From("10.0.0.1"), kStart);
  ASSERT_TRUE(held);
  { ASSERT_TRUE(gate.Admit(From("10.0.0.2"), kStart)); }
  { ASSERT_TRUE(gate.Admit(From("10.0.0.3"), kStart)) << "takes the place of 10.0.0.2"; }
  EXPECT_EQ(gate.sources(), 2u);
  auto bad = gate.Admit(From("10.0.0.3"), kStart + 1s);
  bad->Failed(kStart + 1s);
  bad.reset();
  // Both places are in use now: the others share one account, and its bounds.
  auto shared = gate.Admit(From("10.0.0.4"), kStart + 1s);
  ASSERT_TRUE(shared);
  EXPECT_FALSE(gate.Admit(From("10.0.0.5"), kStart + 1s));
  shared.reset();
  EXPECT_TRUE(gate.Admit(From("10.0.0.5"), kStart + 1s));
  EXPECT_EQ(gate.sources(), 2u);
  EXPECT_TRUE(gate.Admit(From("10.0.0.6"), kStart + 3s)) << "the failure has drained";
  EXPECT_FALSE(gate.Admit(From("10.0.0.1"), kStart + 3s)) << "its stranger is still there";
}

TEST(GateTest, ManyThreads) {
  Gate gate({.strangers_per_source = 3, .failures = {1ns, 1000000}, .max_sources = 2});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&gate, t] {
      const Source sources[] = {From("10.0.0.1"), From("10.0.0.2"), From("10.0.0.3")};
      for (int i = 0; i < 2000; ++i) {
        auto visit = gate.Admit(sources[(i + t) % 3], Clock::now());
        if (visit && i % 3 == 0) visit->Failed(Clock::now());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const char* source : {"10.0.0.1", "10.0.0.2", "10.0.0.3"}) {
    EXPECT_TRUE(gate.Admit(From(source), Clock::now() + 1h)) << "no place was lost: " << source;
  }
}

}  // namespace
}  // namespace peercache
