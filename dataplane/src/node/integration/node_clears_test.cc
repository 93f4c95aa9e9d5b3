// Clears of whole nodes on loopback; what becomes of members that are away: tests/fleet.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 32 << 10;

TEST(NodeClearsTest, ClearsOfManyEnginesOnSeveralNodesAtOnceAllSucceed) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b"), c = cluster.Start("c");
  // Four times as many as engines: more in a row would be refused (Tenant::kClears).
  for (int round = 0; round < 4; ++round) {
    std::vector<std::thread> engines;
    for (Node* node : {a.get(), b.get(), c.get()}) {
      for (int i = 0; i < 4; ++i) {
        engines.emplace_back([=] {
          TestEngine engine(node->socket(), 4, kPage);
          const Status status = engine.client().Clear(7);
          EXPECT_TRUE(status.ok()) << status.ToString();
        });
      }
    }
    for (auto& engine : engines) engine.join();
    TestEngine on_a(a->socket(), 16, kPage), on_c(c->socket(), 16, kPage);
    ASSERT_EQ(on_a.Set(0, 16, 7), 16u);
    EXPECT_TRUE(Eventually(10s, [&] { return on_c.Get(0, 16).hits == 16; })) << "set after them";
    EXPECT_EQ(on_a.Get(0, 16).hits, 16u);
  }
}

TEST(NodeClearsTest, AReaderThatJoinsAfterAClearSeesWhatWasSetSince) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64, 7), 64u);
  ASSERT_TRUE(writer.client().Clear(7).ok());
  ASSERT_EQ(writer.Set(100, 64, 7), 64u);
  for (int i = 0; i < 3; ++i) {
    auto late = cluster.Start("late" + std::to_string(i));
    TestEngine reader(late->socket(), 64, kPage);
    EXPECT_EQ(reader.Get(100, 64).hits, 64u);
    EXPECT_EQ(reader.Exists(0, 64), 0u);
  }
}

}  // namespace
}  // namespace peercache
