// Whole nodes that look keys up in each other's shards by RDMA; as node_fabric_test.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "node/integration/node_fabric_testing.h"
#include "node/integration/node_process_testing.h"

namespace peercache {
namespace {

using std::chrono::seconds;
using testing::Churn;
using testing::CounterOf;
using testing::Eventually;
using testing::TestCluster;
using testing::TestEngine;
using testing::UseRails;

constexpr size_t kPage = 64 << 10;

void OneSided(NodeConfig* config) {
  UseRails(config);
  config->dir_cache_ttl = {};  // every get looks its keys up
  config->directory_lookups = "one-sided";
  config->pool_bytes = size_t{64} << 20;
}

// The next grant is asked for when a third of one is over. On a slow machine that is at each get,
// where it is a third of TestCluster's.
void LongGrants(NodeConfig* config) {
  OneSided(config);
  config->member_ttl = seconds(15);
  config->peer_timeout = seconds(10);
}

// By memory alone, of all shards but the own.
struct Lookups {
  explicit Lookups(Node& node)
      : one_sided(CounterOf(node, "lookup_keys_one_sided")),
        rpc(CounterOf(node, "lookup_keys_rpc")),
        fallbacks(CounterOf(node, "one_sided_fallbacks")) {}
  uint64_t one_sided, rpc, fallbacks;
};

// A get of these pages hits them all, and its lookups ask nobody.
bool HitsWithoutAsking(TestEngine* reader, Node* node, uint64_t first, size_t count) {
  return Eventually([&] {
    const Lookups before(*node);
    const auto got = reader->Get(first, count);
    EXPECT_EQ(got.wrong, 0u);
    if (got.hits != count) return false;
    const Lookups after(*node);
    return after.one_sided > before.one_sided && after.rpc == before.rpc;
  });
}

// Runs `step` for four seconds, and longer, at most twenty, on a machine too slow to have had
// `enough`.
template <typename Enough, typename Step>
void RunUntil(const Enough& enough, const Step& step) {
  const TimePoint start = Clock::now();
  for (Duration ran{}; ran < seconds(4) || (ran < seconds(20) && !enough());
       ran = Clock::now() - start) {
    step();
  }
}

TEST(OneSidedFabricTest, TheShardIsNotAsked) {
  TestCluster cluster(LongGrants);
  auto a = cluster.Start("a"), b = cluster.Start("b");
  ASSERT_TRUE(a && b);
  TestEngine writer(a->socket(), 64, kPage), reader(b->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  ASSERT_TRUE(HitsWithoutAsking(&reader, b.get(), 0, 64));
  EXPECT_TRUE(Eventually([&] {
    const uint64_t served = CounterOf(*a, "served_lookups");
    const uint64_t looked = CounterOf(*b, "lookup_keys_one_sided");
    return reader.Get(0, 64).hits == 64 && CounterOf(*a, "served_lookups") == served &&
           CounterOf(*b, "lookup_keys_one_sided") > looked;
  }));
  for (uint64_t round = 1; round <= 5; ++round) {
    ASSERT_EQ(writer.Set(1000 * round, 64), 64u);
    EXPECT_EQ(reader.Exists(1000 * round, 64), 64u) << "set is visible at once";
    EXPECT_EQ(reader.Get(1000 * round, 64).hits, 64u);
  }
  EXPECT_EQ(reader.Get(500'000, 64).hits, 0u) << "nobody has these";
}

TEST(OneSidedFabricTest, AShardWithoutBucketsIsAsked) {
  TestCluster cluster(OneSided);
  auto a = cluster.Start("a");
  NodeConfig config = cluster.Config("plain");
  config.directory_lookups = "rpc";
  auto plain = Node::Start(config);
  ASSERT_TRUE(a && plain.ok());
  ASSERT_TRUE(Eventually(seconds(20), [&] { return (*plain)->ready(); }));
  TestEngine writer((*plain)->socket(), 64, kPage), reader(a->socket(), 64, kPage);
  for (uint64_t round = 0; round < 5; ++round) {
    ASSERT_EQ(writer.Set(1000 * round, 64), 64u);
    EXPECT_EQ(reader.Get(1000 * round, 64).hits, 64u);
  }
  EXPECT_EQ(CounterOf(*a, "lookup_keys_one_sided"), 0u);
  EXPECT_GT(CounterOf(*a, "lookup_keys_rpc"), 0u);
}

// As many pages as the buckets of both shards have entries: some fill up before others.
TEST(OneSidedFabricTest, WhatFindsNoPlaceInItsBucketIsAskedFor) {
  constexpr size_t kSmall = 4 << 10, kAtOnce = 512;
  TestCluster cluster([](NodeConfig* c) {
    OneSided(c);
    c->huge_pages = HugePages::kOff;  // or there would be room for more
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  ASSERT_TRUE(a && b);
  TestEngine writer(a->socket(), kAtOnce, kSmall), reader(b->socket(), kAtOnce, kSmall);
  for (uint64_t first = 0; first < 8 * kAtOnce; first += kAtOnce)
    ASSERT_TRUE(Eventually(seconds(20), [&] { return writer.Set(first, kAtOnce) == kAtOnce; }));
  const Lookups before(*b);
  EXPECT_TRUE(Eventually(seconds(20), [&] {
    for (uint64_t first = 0; first < 8 * kAtOnce; first += kAtOnce) {
      const auto got = reader.Get(first, kAtOnce);
      EXPECT_EQ(got.wrong, 0u);
      if (got.hits != kAtOnce) return false;
    }
    const Lookups after(*b);
    return after.fallbacks > before.fallbacks && after.one_sided > before.one_sided;
  }));
}

// More than are READ from a peer in one round, and in two.
TEST(OneSidedFabricTest, ManyKeysAtOnceTakeSeveralRounds) {
  constexpr size_t kSmall = 4 << 10, kMany = 2000;
  TestCluster cluster(LongGrants);
  auto a = cluster.Start("a"), b = cluster.Start("b");
  ASSERT_TRUE(a && b);
  TestEngine writer(a->socket(), kMany, kSmall), reader(b->socket(), kMany, kSmall);
  ASSERT_TRUE(Eventually([&] { return writer.Set(0, kMany) == kMany; }));
  EXPECT_TRUE(Eventually([&] {
    const Lookups before(*b);
    return reader.Exists(0, kMany) == kMany && Lookups(*b).one_sided > before.one_sided + 512;
  }));
}

// Pages come and go in a pool far smaller than what is set, without checksums.
TEST(OneSidedFabricTest, NoWrongByteWhilePagesAreEvicted) {
  TestCluster cluster([](NodeConfig* c) {
    LongGrants(c);
    c->checksums = ChecksumPolicy::kOff;
    c->lease = milliseconds(200);
    c->pool_bytes = size_t{8} << 20;
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  ASSERT_TRUE(a && b);
  TestEngine writer(a->socket(), 16, kPage), reader(b->socket(), 16, kPage);
  ASSERT_EQ(writer.Set(0, 16), 16u);
  ASSERT_TRUE(HitsWithoutAsking(&reader, b.get(), 0, 16));
  Churn churn(&writer, &reader);
  RunUntil([&] { return churn.hits > 100 && CounterOf(*b, "lookup_keys_one_sided") > 100; },
           [&] { churn.Read(); });
  churn.Stop();
  EXPECT_GT(churn.hits, 100u);
  EXPECT_EQ(churn.wrong, 0u);
  EXPECT_GT(CounterOf(*b, "lookup_keys_one_sided"), 100u);
}

TEST(OneSidedFabricTest, AShardThatDiesIsLeftAndComesBack) {
  TestCluster cluster(OneSided);
  auto host = cluster.Start("host"), b = cluster.Start("b");
  ASSERT_TRUE(host && b);
  TestEngine writer(host->socket(), 32, kPage), reader(b->socket(), 32, kPage);
  for (uint64_t life = 1; life <= 2; ++life) {
    auto a = cluster.Start("a");
    ASSERT_TRUE(a);
    // Not all are acknowledged while a member comes or goes.
    ASSERT_TRUE(Eventually(seconds(20), [&] { return writer.Set(1000 * life, 32) == 32; }));
    ASSERT_TRUE(HitsWithoutAsking(&reader, b.get(), 1000 * life, 32));
    a.reset();
    // The owners publish to other shards what the lost one had.
    EXPECT_TRUE(Eventually(seconds(20), [&] {
      const auto got = reader.Get(1000 * life, 32);
      EXPECT_EQ(got.wrong, 0u);
      return got.hits == 32;
    }));
  }
}

// The node of `config` as a process of its own, which can be stopped.
testing::NodeProcess Process(const NodeConfig& config) {
  return testing::NodeProcess({"node-id=" + config.node_id, "cluster=" + config.cluster,
                               "discovery-addr=" + config.discovery_addr, "bind-addr=127.0.0.1",
                               "advertise-addr=127.0.0.1", "peer-port=0", "http-port=0",
                               "socket=" + config.socket, "pool-size=32Mi", "huge-pages=off",
                               "transport=rdma", "device-name=" + config.device_name,
                               "directory-lookups=" + config.directory_lookups,
                               fmt::format("lease-ms={}", config.lease.count()),
                               fmt::format("heartbeat-ms={}", config.heartbeat.count()),
                               fmt::format("member-ttl-ms={}", config.member_ttl.count())});
}

// Its memory can be READ all the same, and what it has granted ends by itself.
TEST(OneSidedFabricTest, AShardThatIsStoppedIsLeftAndNeverWrong) {
  TestCluster cluster([](NodeConfig* c) {
    OneSided(c);
    c->checksums = ChecksumPolicy::kOff;
    c->pool_bytes = size_t{8} << 20;
  });
  auto host = cluster.Start("host"), b = cluster.Start("b");
  ASSERT_TRUE(host && b);
  const auto stopped = Process(cluster.Config("stopped"));
  const auto members = [&] { return testing::Status(*b)["members"].size(); };
  ASSERT_TRUE(Eventually(seconds(20), [&] { return members() == 3; }));
  TestEngine writer(host->socket(), 32, kPage), reader(b->socket(), 32, kPage);
  ASSERT_TRUE(Eventually(seconds(20), [&] { return writer.Set(0, 32) == 32; }));
  ASSERT_TRUE(HitsWithoutAsking(&reader, b.get(), 0, 32));
  stopped.Signal(SIGSTOP);
  // Slots are reused while the stopped shard still has the records of what was there.
  size_t wrong = 0, hits = 0;
  uint64_t first = 0;
  RunUntil([&] { return hits > 0; },
           [&] {
             writer.Set(100 + 32 * first, 32);
             for (const uint64_t back : {uint64_t{0}, 100 + 32 * first}) {
               const auto got = reader.Get(back, 32);
               wrong += got.wrong;
               hits += got.hits;
             }
             ++first;
           });
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(hits, 0u);
  EXPECT_TRUE(Eventually(seconds(20), [&] {
    ++first;
    return writer.Set(100 + 32 * first, 32) == 32 && reader.Get(100 + 32 * first, 32).hits == 32;
  })) << "others have taken its part of the ring";
  stopped.Signal(SIGCONT);
  ++first;
  ASSERT_TRUE(Eventually(seconds(20), [&] { return writer.Set(100 + 32 * first, 32) == 32; }));
  EXPECT_TRUE(Eventually(seconds(20), [&] { return reader.Get(100 + 32 * first, 32).hits == 32; }));
}

// Its device answers READs of its pool, and its records are in buckets that do so, too.
TEST(OneSidedFabricTest, PagesOfAStoppedHolderAreNotReadAfterAClear) {
  TestCluster cluster([](NodeConfig* c) {
    OneSided(c);
    c->member_ttl = seconds(10);  // longer than this takes: its records are served all the time
    c->promotion_percent = 0;
  });
  auto host = cluster.Start("host"), b = cluster.Start("b");
  ASSERT_TRUE(host && b);
  const NodeConfig config = cluster.Config("holder");
  const auto holder = Process(config);
  const auto members = [&] { return testing::Status(*b)["members"].size(); };
  ASSERT_TRUE(Eventually(seconds(20), [&] { return members() == 3; }));
  TestEngine writer(config.socket, 32, kPage), reader(b->socket(), 32, kPage);
  ASSERT_TRUE(Eventually(seconds(20), [&] { return writer.Set(0, 32, 7) == 32; }));
  // A grant of the holder's that ends just then costs the get its time: once more, then.
  bool read = false;
  for (int tries = 0; tries < 5 && !read; ++tries) {
    holder.Signal(SIGCONT);
    ASSERT_TRUE(Eventually(seconds(20), [&] {
      const uint64_t before = testing::RailBytes(*b);
      return reader.Get(0, 32).hits == 32 && testing::RailBytes(*b) > before;
    }));
    holder.Signal(SIGSTOP);
    read = reader.Get(0, 32).hits > 0;
  }
  ASSERT_TRUE(read) << "else this proves nothing";
  const Status status = reader.client().Clear(7);
  EXPECT_NE(status.message().find("do not know it: holder;"), std::string::npos)
      << status.ToString();
  EXPECT_EQ(reader.Get(0, 32).hits, 0u);
  EXPECT_EQ(reader.Exists(0, 32), 0u);
  holder.Signal(SIGCONT);
  for (const TimePoint end = Clock::now() + seconds(2); Clock::now() < end;) {
    EXPECT_EQ(writer.Get(0, 32).hits, 0u);
    EXPECT_EQ(reader.Get(0, 32).hits, 0u);
  }
  // And it is read again.
  ASSERT_EQ(writer.Set(100, 32, 7), 32u);
  EXPECT_TRUE(Eventually(seconds(20), [&] { return reader.Get(100, 32).hits == 32; }));
}

}  // namespace
}  // namespace peercache
