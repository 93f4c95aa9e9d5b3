#include "transport/rdma/budget.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace peercache::rdma {
namespace {

using Place = RailBudget::Place;

TEST(RailBudgetTest, WhatIsTakenIsWhatMayBeGivenBack) {
  RailBudget budget(100);
  EXPECT_TRUE(budget.TryTake(60));
  EXPECT_FALSE(budget.TryTake(50));
  EXPECT_TRUE(budget.TryTake(40));
  EXPECT_EQ(budget.taken(), 100u);
  budget.Give(60);
  EXPECT_TRUE(budget.TryTake(50));
  EXPECT_EQ(budget.peak(), 100u);
}

TEST(RailBudgetTest, WhatCannotWaitGoesBeyondIt) {
  RailBudget budget(100);
  budget.Take(100);
  budget.Take(10);
  EXPECT_EQ(budget.taken(), 110u);
  budget.Give(60);
  EXPECT_FALSE(budget.TryTake(60));
  EXPECT_TRUE(budget.TryTake(50));
}

// A call of hundreds of READs does not starve one that came after it with a single one.
TEST(RailBudgetTest, FirstComeFirstServed) {
  RailBudget budget(100);
  budget.Take(100);
  Place large, small;
  budget.StandInLine(&large, 80);
  budget.StandInLine(&small, 10);
  EXPECT_TRUE(large.in_line() && small.in_line());
  budget.Give(50);
  EXPECT_FALSE(large.granted());
  EXPECT_FALSE(small.granted()) << "there is room for it, but others came first";
  EXPECT_FALSE(budget.TryTake(10)) << "as for who stands in no line";
  budget.Give(40);
  EXPECT_TRUE(large.granted() && small.granted());
  EXPECT_EQ(budget.taken(), 100u);
  large.Use();
  budget.Give(80);
  EXPECT_TRUE(budget.TryTake(80));
}

TEST(RailBudgetTest, WhoLeavesHoldsUpNobody) {
  RailBudget budget(100);
  budget.Take(100);
  auto large = std::make_unique<Place>();
  Place small;
  budget.StandInLine(large.get(), 80);
  budget.StandInLine(&small, 10);
  budget.Give(20);
  EXPECT_FALSE(small.granted());
  large.reset();
  EXPECT_TRUE(small.granted());
  small.Leave();
  EXPECT_FALSE(small.granted() || small.in_line());
  EXPECT_EQ(budget.taken(), 80u) << "what was granted and not used is given back";
}

TEST(RailBudgetTest, WhatNobodyWaitsForTakesWhatIsLeft) {
  RailBudget budget(100);
  EXPECT_TRUE(budget.TryTakeBehind(60)) << "it is alone";
  EXPECT_FALSE(budget.TryTakeBehind(1));
  budget.Give(60);
  EXPECT_TRUE(budget.TryTakeBehind(20));
  EXPECT_FALSE(budget.TryTakeBehind(31)) << "more than half";
  EXPECT_TRUE(budget.TryTake(80)) << "the others have all of it";
  budget.Give(20);
  EXPECT_FALSE(budget.TryTakeBehind(1));
  Place place;
  budget.StandInLine(&place, 90);
  budget.Give(80);
  place.Leave();
  EXPECT_TRUE(budget.TryTakeBehind(50));
}

TEST(RailBudgetTest, WhoSleepsIsWoken) {
  RailBudget budget(100);
  budget.Take(100);
  const UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  eventfd_t times = 0;
  Place place;
  EXPECT_TRUE(place.WakeBy(event.get())) << "it waits for nothing";
  budget.StandInLine(&place, 50);
  EXPECT_TRUE(place.WakeBy(event.get()));
  EXPECT_NE(eventfd_read(event.get(), &times), 0);
  budget.Give(100);
  EXPECT_EQ(eventfd_read(event.get(), &times), 0);
  EXPECT_FALSE(place.WakeBy(event.get())) << "before it sleeps, it is told";
  EXPECT_FALSE(place.WakeBy(-1));
}

// Bytes are not lost, and nobody is left in line, whoever comes when.
TEST(RailBudgetTest, ManyThreads) {
  constexpr uint64_t kBytes = 64;
  RailBudget budget(kBytes);
  std::atomic<uint64_t> under_way{0};
  std::atomic<bool> too_many{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 20'000; ++i) {
        const uint64_t bytes = 1 + (i * (t + 7)) % kBytes;
        if (!budget.TryTake(bytes)) {
          Place place;
          budget.StandInLine(&place, bytes);
          if (i % 64 == 0) continue;  // it gives up
          while (!place.granted()) std::this_thread::yield();
          place.Use();
        }
        if (under_way.fetch_add(bytes) + bytes > kBytes) too_many = true;
        under_way.fetch_sub(bytes);
        budget.Give(bytes);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(too_many);
  EXPECT_EQ(budget.taken(), 0u);
  EXPECT_LE(budget.peak(), kBytes);
}

}  // namespace
}  // namespace peercache::rdma
