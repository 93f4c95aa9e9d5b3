// Pages that many nodes hold: real nodes and engines on loopback.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 16 << 10, kPages = 64;

// Five nodes set the same pages. The four that set them last leave and take nothing along: the
// first one still has all of them, and everybody must find them there.
TEST(HoldersTest, APageIsFoundAtTheLastOfManyHolders) {
  TestCluster cluster([](NodeConfig* c) {
    c->peer_timeout = 5000ms;
    c->drain_budget = 0;
  });
  std::vector<std::unique_ptr<Node>> nodes;
  for (const char* id : {"a", "b", "c", "d", "e", "f"}) nodes.push_back(cluster.Start(id));
  const size_t reader = nodes.size() - 1;
  for (size_t i = 0; i < reader; ++i) {
    TestEngine writer(nodes[i]->socket(), kPages, kPage);
    ASSERT_EQ(writer.Set(0, kPages), kPages) << "at node " << i;
  }
  for (size_t i = 1; i < reader; ++i) {
    nodes[i]->Leave(10s);
    nodes[i].reset();
  }
  TestEngine engine(nodes[reader]->socket(), kPages, kPage);
  EXPECT_EQ(engine.Exists(0, kPages), kPages);
  const auto got = engine.Get(0, kPages);
  EXPECT_EQ(got.hits, kPages);
  EXPECT_EQ(got.wrong, 0u);
}

}  // namespace
}  // namespace peercache
