// Nodes whose wall clock was set back: real nodes and engines on loopback.
#include <gtest/gtest.h>

#include <chrono>

#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 16 << 10, kPages = 64;

// Started an hour ahead, killed, and started again by the right clock: to the others it is a former
// process of itself.
TEST(IncarnationTest, ANodeWhoseClockWasSetBackSetsAllOfItsPagesAgain) {
  bool ahead = true;
  TestCluster cluster([&](NodeConfig* c) {
    const auto now = std::chrono::system_clock::now() + (ahead ? 1h : 0h);
    if (c->node_id == "b") c->incarnation = static_cast<uint64_t>(now.time_since_epoch() / 1ns);
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  {
    TestEngine engine(b->socket(), kPages, kPage);
    ASSERT_EQ(engine.Set(0, kPages), kPages);
  }
  b.reset();
  ahead = false;
  b = cluster.Start("b");
  TestEngine writer(b->socket(), kPages, kPage);
  size_t set = 0;
  EXPECT_TRUE(Eventually(20s, [&] { return (set = writer.Set(1000, kPages)) == kPages; }))
      << set << " of " << kPages << " pages were set";
  TestEngine reader(a->socket(), kPages, kPage);
  const auto got = reader.Get(1000, kPages);
  EXPECT_EQ(got.hits, kPages);
  EXPECT_EQ(got.wrong, 0u);
}

}  // namespace
}  // namespace peercache
