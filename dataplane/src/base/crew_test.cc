#include "base/crew.h"

#include <gtest/gtest.h>

#include <set>

namespace peercache {
namespace {

TEST(CrewTest, EveryIndexOnceWithAnyNumberOfHelpers) {
  for (const unsigned helpers : {0u, 1u, 3u}) {
    Crew crew(helpers);
    for (const size_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> calls(count);
      crew.For(count, [&](size_t i) { ++calls[i]; });
      for (const auto& c : calls) EXPECT_EQ(c, 1);
    }
  }
}

TEST(CrewTest, HelpersTakePart) {
  Crew crew(1);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  // Both must be inside at once for the loop to end.
  std::atomic<int> inside{0};
  crew.For(2, [&](size_t) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 2u);
}

TEST(CrewTest, WhileItHelpsOneCallerAnotherWorksAlone) {
  Crew crew(1);
  std::atomic<bool> release{false};
  std::atomic<int> started{0};
  std::thread first([&] {
    crew.For(2, [&](size_t) {
      ++started;
      while (!release) std::this_thread::yield();
    });
  });
  while (started < 2) std::this_thread::yield();
  EXPECT_EQ(crew.Hands(), 1u);
  int done = 0;
  crew.For(10, [&](size_t) { ++done; });  // not atomic: nobody else takes part
  EXPECT_EQ(done, 10);
  release = true;
  first.join();
  EXPECT_EQ(crew.Hands(), 2u);
}

TEST(CrewTest, ManyCallersAtOnce) {
  Crew crew(3);
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 2000; ++round) {
        size_t results[16] = {};  // of this round: a late helper would write to a dead one
        crew.For(16, [&](size_t i) { results[i] = i + 1; });
        for (size_t i = 0; i < 16; ++i) ASSERT_EQ(results[i], i + 1);
      }
    });
  }
  for (std::thread& c : callers) c.join();
}

}  // namespace
}  // namespace peercache
