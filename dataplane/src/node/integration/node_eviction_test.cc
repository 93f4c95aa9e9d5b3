// Whole nodes on loopback: replicas, and evictions whose slots are used again while others read
// them.
#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "node/integration/node_status_testing.h"
#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::CounterOf;
using testing::Eventually;
using testing::PoolNumber;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 64 << 10;

// Of every page that an engine of `node` reads a second time.
bool Promotes(TestEngine& reader, Node& node, uint64_t first, size_t count) {
  for (int i = 0; i < 2; ++i)
    if (reader.Get(first, count).hits != count) return false;
  return Eventually([&] {
    const auto pool = nlohmann::json::parse(node.StatusJson())["pool"];
    return pool["replicas"].get<size_t>() >= count;
  });
}

// A page that is read often is on several nodes, and outlives the one that it was set on.
TEST(NodeTest, ReplicasAreFoundByOthersAndTakeOverFromAHolderThatDies) {
  TestCluster cluster([](NodeConfig* c) {
    c->pool_bytes = size_t{64} << 20;
    c->least_promotion_bytes = 0;
    c->dir_cache_ttl = 1000ms;
    c->lease = 1000ms;
    if (c->node_id == "c") c->promotion_percent = 0;  // it goes on asking others
  });
  auto a = cluster.Start("a");
  const auto b = cluster.Start("b"), c = cluster.Start("c");
  TestEngine writer(a->socket(), 32, kPage), often(b->socket(), 32, kPage),
      reader(c->socket(), 32, kPage);
  ASSERT_EQ(writer.Set(0, 32), 32u);
  ASSERT_TRUE(Promotes(often, *b, 0, 32));
  // Half of the readers are sent to each holder.
  EXPECT_TRUE(Eventually(
      5s, [&] { return reader.Get(0, 32).hits == 32 && CounterOf(*b, "served_pages") > 0; }));
  // The call that meets the dead holder reads from the other one.
  ASSERT_EQ(reader.Exists(0, 32), 32u);
  a.reset();
  const auto got = reader.Get(0, 32);
  // Those whose shard died with the holder are found when the others have its part.
  EXPECT_GT(got.hits, 0u);
  EXPECT_EQ(got.wrong, 0u);
  EXPECT_TRUE(Eventually([&] {
    const auto again = reader.Get(0, 32);
    EXPECT_EQ(again.wrong, 0u);
    return again.hits == 32;
  }));
}

TEST(NodeTest, ReplicasGoWithAClearAndAreOwnPagesOnceSet) {
  TestCluster cluster([](NodeConfig* c) {
    c->pool_bytes = size_t{64} << 20;
    c->least_promotion_bytes = 0;
  });
  const auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 16, kPage), often(b->socket(), 16, kPage);
  ASSERT_EQ(writer.Set(0, 16, 7), 16u);
  ASSERT_TRUE(Promotes(often, *b, 0, 16));
  ASSERT_TRUE(writer.client().Clear(7).ok());
  EXPECT_EQ(often.Exists(0, 16), 0u);
  EXPECT_EQ(often.Get(0, 16).hits, 0u);
  ASSERT_EQ(writer.Set(0, 16, 7), 16u);
  ASSERT_TRUE(Promotes(often, *b, 0, 16));
  ASSERT_EQ(often.Set(0, 16, 7), 16u);
  const auto pool = nlohmann::json::parse(b->StatusJson())["pool"];
  EXPECT_EQ(pool["replicas"], 0u);
  EXPECT_EQ(pool["pages"], 16u);
}

struct Churned {
  size_t sets = 0, hits = 0, wrong = 0;  // pages
};

// Sets three times a pool of 16 MiB in distinct pages, over and over, so that slots are used again
// all the time, and reads the newest: one engine for each reader. Goes on for 3 s and until that
// was `enough`, but for no more than a minute.
Churned Churn(Node* writer, const std::vector<Node*>& readers, milliseconds pause,
              const std::function<bool(const Churned&)>& enough) {
  constexpr uint64_t kBatches = 24;
  constexpr size_t kBatch = 32;
  std::atomic<bool> stop{false};
  std::atomic<size_t> sets{0}, hits{0}, wrong{0};
  std::atomic<uint64_t> newest{0};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    TestEngine engine(writer->socket(), kBatch, kPage);
    for (uint64_t n = 0; !stop; ++n) {
      sets += engine.Set(n % kBatches * kBatch, kBatch);
      newest = n;
      std::this_thread::sleep_for(pause);
    }
  });
  for (Node* node : readers) {
    threads.emplace_back([&, node] {
      TestEngine engine(node->socket(), kBatch, kPage);
      for (uint64_t i = 0; !stop; ++i) {
        const auto got = engine.Get((newest + kBatches - i % 6) % kBatches * kBatch, kBatch);
        hits += got.hits;
        wrong += got.wrong;
      }
    });
  }
  const auto now = [&] { return Churned{sets, hits, wrong}; };
  std::this_thread::sleep_for(3s);
  Eventually(60s, [&] { return enough(now()); });
  stop = true;
  for (auto& thread : threads) thread.join();
  return now();
}

TEST(NodeTest, EvictionUnderLoadNeverGivesWrongBytes) {
  TestCluster cluster([](NodeConfig* c) { c->pool_bytes = size_t{16} << 20; });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  const auto enough = [&](const Churned& all) {
    return all.hits > 1000 && all.sets > 500 && PoolNumber(*a, "evictions") > 100;
  };
  const Churned all = Churn(a.get(), {a.get(), b.get()}, 0ms, enough);
  EXPECT_EQ(all.wrong, 0u);
  EXPECT_TRUE(enough(all)) << all.hits << " hits, " << all.sets << " sets";
}

// Replicas come and go on nodes that read more pages again than their share holds, while the pages'
// holder evicts: records of several holders, and slots that are used again all the time.
TEST(NodeTest, ReplicasThatComeAndGoNeverGiveWrongBytes) {
  TestCluster cluster([](NodeConfig* c) {
    c->pool_bytes = size_t{16} << 20;
    c->lease = 60ms;
    c->dir_cache_ttl = 60ms;
    c->checksums = ChecksumPolicy::kOff;
    c->promotion_percent = 20;
    c->least_promotion_bytes = 0;
  });
  const auto a = cluster.Start("a"), b = cluster.Start("b"), c = cluster.Start("c");
  const auto enough = [&](const Churned& all) {
    const auto replicas = [](const Node& node) {
      return PoolNumber(node, "replica_evictions") > 20 && CounterOf(node, "served_pages") > 20;
    };
    return all.hits > 1000 && replicas(*b) && replicas(*c);
  };
  const Churned all = Churn(a.get(), {b.get(), c.get(), b.get(), c.get()}, 5ms, enough);
  EXPECT_EQ(all.wrong, 0u);
  EXPECT_TRUE(enough(all)) << all.hits << " hits";
}

}  // namespace
}  // namespace peercache
