#include "transport/tcp/gate.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <optional>
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
  std::optional<Gate::Visit> first = gate.Admit(one, kStart);
  const auto second = gate.Admit(one, kStart);
  EXPECT_FALSE(second.crowded());
  const auto third = gate.Admit(one, kStart);
  EXPECT_TRUE(third.crowded());
  const auto other = gate.Admit(From("10.0.0.2"), kStart);
  EXPECT_FALSE(other.crowded()) << "another source must not suffer";
  EXPECT_TRUE(third.SameSource(second));
  EXPECT_FALSE(third.SameSource(other));
  first.reset();  // greeted
  EXPECT_FALSE(third.crowded());
}

TEST(GateTest, OneSourceDoesNotFillTheLog) {
  Gate gate({.lines = {60s, 2}});
  auto one = gate.Admit(From("10.0.0.1"), kStart);
  EXPECT_TRUE(one.TakeLine(kStart) && one.TakeLine(kStart));
  EXPECT_FALSE(one.TakeLine(kStart + 59s));
  auto again = gate.Admit(From("10.0.0.1"), kStart + 59s);
  EXPECT_FALSE(again.TakeLine(kStart + 59s)) << "it is the same source";
  auto other = gate.Admit(From("10.0.0.2"), kStart);
  EXPECT_TRUE(other.TakeLine(kStart)) << "another source must be heard of";
  EXPECT_TRUE(one.TakeLine(kStart + 61s));
}

TEST(GateTest, ASourceThatFailsTooOftenIsAnsweredNoMore) {
  Gate gate({.failures = {100ms, 5}});
  auto bad = gate.Admit(From("10.0.0.1"), kStart);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(bad.Failed(kStart)) << i;
  EXPECT_FALSE(bad.Failed(kStart));
  EXPECT_TRUE(gate.Admit(From("10.0.0.2"), kStart).Failed(kStart));
  EXPECT_FALSE(bad.Failed(kStart + 99ms));
  EXPECT_TRUE(bad.Failed(kStart + 101ms)) << "one more attempt has drained";
  EXPECT_FALSE(bad.Failed(kStart + 101ms));
  EXPECT_TRUE(bad.Failed(kStart + 1s));
  EXPECT_EQ(gate.stats().unanswered, 3u);
  EXPECT_EQ(gate.stats().failures, 11u);
}

TEST(GateTest, AHandshakeThatIsBegunIsAFailureUntilItIsDone) {
  Gate gate({.failures = {100ms, 2}});
  const Source source = From("10.0.0.1");
  auto good = gate.Admit(source, kStart);
  {
    auto left = gate.Admit(source, kStart);
    EXPECT_TRUE(good.Begin(kStart) && left.Begin(kStart));
  }
  EXPECT_EQ(gate.stats().failures, 1u);
  auto next = gate.Admit(source, kStart);
  EXPECT_FALSE(next.Begin(kStart)) << "it has to wait";
  EXPECT_TRUE(gate.Admit(From("10.0.0.2"), kStart).Begin(kStart));
  good.Done();
  EXPECT_TRUE(next.Begin(kStart));
  EXPECT_TRUE(next.Failed(kStart)) << "which counts once";
  EXPECT_FALSE(good.Begin(kStart + 99ms));
  EXPECT_TRUE(good.Begin(kStart + 101ms));
}

TEST(GateTest, AWrongTokenOnOneNodeIsAnsweredAlways) {
  // Two attempts a second for an hour from one address, with the bounds of production.
  Gate gate(GateOptions{});
  auto host = gate.Admit(From("10.0.0.1"), kStart);
  for (int i = 0; i < 7200; ++i) EXPECT_TRUE(host.Failed(kStart + i * 500ms)) << i;
}

TEST(GateTest, SourcesAreForgottenAndBounded) {
  Gate gate({.strangers_per_source = 1, .failures = {100ms, 2}, .max_sources = 2});
  const auto held = gate.Admit(From("10.0.0.1"), kStart);
  (void)gate.Admit(From("10.0.0.2"), kStart);
  (void)gate.Admit(From("10.0.0.3"), kStart);  // takes the place of 10.0.0.2
  EXPECT_EQ(gate.sources(), 2u);
  EXPECT_TRUE(gate.Admit(From("10.0.0.3"), kStart + 1s).Failed(kStart + 1s));
  {
    // Both places are in use now: the others share one account, and its bounds.
    const auto shared = gate.Admit(From("10.0.0.4"), kStart + 1s);
    EXPECT_FALSE(shared.crowded());
    EXPECT_TRUE(gate.Admit(From("10.0.0.5"), kStart + 1s).crowded());
  }
  EXPECT_FALSE(gate.Admit(From("10.0.0.5"), kStart + 1s).crowded());
  EXPECT_EQ(gate.sources(), 2u);
  // The failure has drained.
  EXPECT_FALSE(gate.Admit(From("10.0.0.6"), kStart + 3s)
                   .SameSource(gate.Admit(From("10.0.0.7"), kStart + 3s)));
  EXPECT_TRUE(gate.Admit(From("10.0.0.1"), kStart + 3s).crowded()) << "its stranger is still there";
}

TEST(GateTest, ManyThreads) {
  Gate gate({.strangers_per_source = 0, .failures = {1ns, 1000000}, .max_sources = 2});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&gate, t] {
      const Source sources[] = {From("10.0.0.1"), From("10.0.0.2"), From("10.0.0.3")};
      for (int i = 0; i < 2000; ++i) {
        auto visit = gate.Admit(sources[(i + t) % 3], Clock::now());
        EXPECT_TRUE(visit.crowded());
        if (i % 2 == 0) (void)visit.Begin(Clock::now());
        if (i % 3 == 0) (void)visit.Failed(Clock::now());
        if (i % 5 == 0) visit.Done();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(gate.sources(), 2u);
}

}  // namespace
}  // namespace peercache
