#include "node/engine/call_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace peercache {
namespace {

TimePoint In(int ms) { return Clock::now() + milliseconds(ms); }

TEST(CallGateTest, LetsInAsManyAsTheLimitAndNoMore) {
  CallGate gate(2);
  auto first = gate.Enter(In(0)), second = gate.Enter(In(0));
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(first->waited());
  EXPECT_FALSE(gate.Enter(In(5)).has_value());
  first.reset();
  EXPECT_TRUE(gate.Enter(In(0)).has_value());
}

TEST(CallGateTest, WhoGaveUpIsNotServed) {
  CallGate gate(1);
  auto held = gate.Enter(In(0));
  EXPECT_FALSE(gate.Enter(In(1)).has_value());
  held.reset();  // would be lost if it went to the one who gave up
  EXPECT_TRUE(gate.Enter(In(0)).has_value());
}

TEST(CallGateTest, TurnsComeInOrder) {
  CallGate gate(1);
  auto held = gate.Enter(In(0));
  std::vector<int> order;
  std::vector<std::thread> threads;
  std::atomic<int> arrived{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      ++arrived;
      auto pass = gate.Enter(In(30'000));
      ASSERT_TRUE(pass && pass->waited());
      order.push_back(i);  // the pass is the lock
    });
    while (arrived <= i) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(50));  // until it waits
  }
  held.reset();
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(order.size(), 4u);
}

TEST(CallGateTest, NeverMoreThanTheLimitAtOnceAndNoneIsForgotten) {
  CallGate gate(3);
  std::atomic<int> inside{0}, most{0}, served{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        auto pass = gate.Enter(In(30'000));
        ASSERT_TRUE(pass);
        const int now = ++inside;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        if (i % 16 == 0) std::this_thread::yield();
        --inside;
        ++served;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(served, 8 * 500);
  EXPECT_LE(most, 3);
}

}  // namespace
}  // namespace peercache
