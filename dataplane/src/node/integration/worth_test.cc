// An engine that says how fast it computes: what its node knows, and that it loses no page by it.

#include <string>

#include "node/integration/node_status_testing.h"
#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::CounterOf;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPages = 64, kPage = 64 << 10;
constexpr Counting kCounted{.page_tokens = 16};

uint64_t Prefill(const Node& node) {
  const auto engines = nlohmann::json::parse(node.StatusJson())["engines"];
  return engines.empty() ? 0 : engines[0]["prefill_tokens_per_second"].get<uint64_t>();
}

TEST(WorthNodes, TheNodeIsToldOfARateAndOfEachChange) {
  TestCluster cluster;
  auto a = cluster.Start("a");
  TestEngine engine(a->socket(), kPages, kPage);
  engine.Exists(0, 1);
  EXPECT_EQ(Prefill(*a), 0u);
  engine.client().SetPrefill(5000);
  EXPECT_EQ(engine.Set(0, kPages), kPages);
  EXPECT_EQ(Prefill(*a), 0u) << "a set waits for nothing";
  EXPECT_EQ(engine.Exists(0, kPages), kPages);
  EXPECT_EQ(Prefill(*a), 5000u);
  engine.client().SetPrefill(0);
  EXPECT_EQ(engine.Get(0, kPages).hits, kPages);
  EXPECT_EQ(Prefill(*a), 0u);
}

// Whatever they cost, pages of the own pool are there at once.
TEST(WorthNodes, OwnPagesAreWorthTheirTime) {
  TestCluster cluster;
  auto a = cluster.Start("a");
  TestEngine engine(a->socket(), kPages, kPage);
  engine.client().SetPrefill(UINT32_MAX);
  ASSERT_EQ(engine.Set(0, kPages), kPages);
  EXPECT_EQ(engine.Exists(0, kPages, kCounted), kPages);
  EXPECT_EQ(engine.Get(0, kPages, kCounted).hits, kPages);
}

TEST(WorthNodes, PagesOfANearNodeAreWorthTheirTime) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), kPages, kPage), reader(b->socket(), kPages, kPage);
  reader.client().SetPrefill(16);  // a page takes a second
  for (uint64_t first = 0; first < 5 * kPages; first += kPages) {
    ASSERT_EQ(writer.Set(first, kPages), kPages);
    ASSERT_EQ(reader.Exists(first, kPages, kCounted), kPages);
    const auto got = reader.Get(first, kPages, kCounted);
    EXPECT_EQ(got.hits, kPages);
    EXPECT_EQ(got.wrong, 0u);
  }
  EXPECT_EQ(CounterOf(*b, "read_remote_hits"), 5 * kPages);
}

}  // namespace
}  // namespace peercache
