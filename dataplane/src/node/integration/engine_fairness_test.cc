// An engine that floods its node holds no other engine's reads up.
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using std::chrono::seconds;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kThreads = 8, kBatch = 32, kPage = 64 << 10;
// What a set waits for room, at most: half of the peer timeout.
constexpr milliseconds kPatience{4000};

// Its sets find the pool full and wait for slots that rest for a lease, since another node has just
// asked for their pages, more of them than it may have at work at once. Were the other one behind
// them in any queue, it would wait for seconds.
TEST(EngineFairness, SetsThatWaitForRoomAreNotWaitedFor) {
  TestCluster cluster([](NodeConfig* c) {
    c->pool_bytes = size_t{8} << 20;
    c->lease = milliseconds(3000);
    c->peer_timeout = 2 * kPatience;
    c->engine_concurrency = kThreads / 2;
  });
  const auto holder = cluster.Start("holder"), node = cluster.Start("node");
  TestEngine flooding(node->socket(), kThreads * kBatch, kPage), quiet(node->socket(), 8, 4096),
      told(holder->socket(), 8, 4096);
  // Where no flood evicts them.
  ASSERT_EQ(TestEngine(holder->socket(), 8, 4096).Set(0, 8), 8u);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> next{1000}, calls{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto segments = flooding.Segments(kBatch, t * kBatch);
      std::vector<uint8_t> ok(kBatch);
      while (!stop) {
        const auto keys = TestEngine::Keys(next.fetch_add(kBatch), kBatch);
        flooding.client().Set(keys, segments, 2, 1, ok);
        (void)told.client().Exists(keys);
        flooding.client().Get(keys, segments, 2, ok);
        ++calls;
      }
    });
  }
  const auto counter = [&](const char* name) {
    return nlohmann::json::parse(node->StatusJson())["counters"][name].get<uint64_t>();
  };
  EXPECT_TRUE(testing::Eventually(seconds(60), [&] { return counter("engine_calls_waited") > 0; }))
      << "it is a flood";
  std::vector<Duration> took;
  for (int i = 0; i < 40; ++i) {
    const TimePoint start = Clock::now();
    const auto got = quiet.Get(0, 8);
    took.push_back(Clock::now() - start);
    EXPECT_EQ(got.hits, 8u);
    EXPECT_EQ(got.wrong, 0u);
    std::this_thread::sleep_for(milliseconds(50));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  // A busy machine may be late with some.
  const auto middle = took.begin() + static_cast<ptrdiff_t>(took.size() / 2);
  std::nth_element(took.begin(), middle, took.end());
  EXPECT_LT(*middle, kPatience / 2);
  EXPECT_GT(calls, 0u);
}

}  // namespace
}  // namespace peercache
