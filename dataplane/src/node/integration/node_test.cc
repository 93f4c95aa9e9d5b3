// Whole nodes on loopback: what engines are promised.

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "base/huge_bytes.h"
#include "node/integration/node_status_testing.h"
#include "node/integration/node_testing.h"
#include "node/report/http_get.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::CounterOf;
using testing::Eventually;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 64 << 10;

TEST(NodeTest, PagesOfOneNodeAreReadOnAnotherWithoutWaiting) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b"), c = cluster.Start("c");
  TestEngine writer(a->socket(), 64, kPage), reader(b->socket(), 64, kPage);
  for (int round = 0; round < 5; ++round) {
    const uint64_t first = 1000u * round;
    ASSERT_EQ(writer.Set(first, 64), 64u);
    ASSERT_EQ(reader.Exists(first, 64), 64u);
    const auto got = reader.Get(first, 64);
    EXPECT_EQ(got.hits, 64u);
    EXPECT_EQ(got.wrong, 0u);
  }
  EXPECT_EQ(CounterOf(*a, "served_pages"), 5u * 64);
  EXPECT_EQ(CounterOf(*b, "read_remote_hits"), 5u * 64);
}

TEST(NodeTest, OwnPagesAreReadLocally) {
  TestCluster cluster;
  auto a = cluster.Start("a");
  TestEngine engine(a->socket(), 16, kPage);
  ASSERT_EQ(engine.Set(0, 16), 16u);
  EXPECT_EQ(engine.Get(0, 16).hits, 16u);
  EXPECT_EQ(CounterOf(*a, "read_local_hits"), 16u);
}

TEST(NodeTest, WhileTheCacheIsBypassedEnginesMissAndPagesStay) {
  const testing::TempDir folder;
  const std::string file = folder.path() + "/bypass";
  const auto write = [&](const char* text) { std::ofstream(file) << text; };
  TestCluster cluster([&](NodeConfig* c) {
    if (c->node_id == "a") c->bypass_file = file;
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine bypassed(a->socket(), 16, kPage), other(b->socket(), 16, kPage);
  ASSERT_EQ(bypassed.Set(0, 16), 16u);
  ASSERT_EQ(other.Set(100, 16), 16u);
  write("on\n");
  ASSERT_TRUE(Eventually(20s, [&] { return bypassed.Get(0, 16).hits == 0; }));
  EXPECT_EQ(bypassed.Exists(0, 16), 0u);
  EXPECT_EQ(bypassed.Get(100, 16).hits, 0u) << "of another node";
  EXPECT_EQ(bypassed.Set(200, 16), 0u);
  EXPECT_EQ(other.Get(0, 16).hits, 16u) << "others go on";
  EXPECT_TRUE(nlohmann::json::parse(a->StatusJson())["node"]["bypassed"].get<bool>());
  EXPECT_FALSE(nlohmann::json::parse(b->StatusJson())["node"]["bypassed"].get<bool>());
  write("");
  ASSERT_TRUE(Eventually(20s, [&] { return bypassed.Get(0, 16).hits == 16; }));
  EXPECT_EQ(bypassed.Get(100, 16).hits, 16u);
  EXPECT_EQ(bypassed.Set(200, 16), 16u);
}

TEST(NodeTest, TellsInWhichPagesEnginesHaveTheirMemory) {
  TestCluster cluster;
  auto a = cluster.Start("a");
  TestEngine engine(a->socket(), 64, kPage);
  const std::byte one{};
  if (!HugeBytes({&one, 1})) GTEST_SKIP() << "this kernel does not tell: it is older than 6.7";
  nlohmann::json told;
  EXPECT_TRUE(Eventually(20s, [&] {
    told = nlohmann::json::parse(a->StatusJson())["engines"][0];
    return told["bytes_in_small_pages"].get<uint64_t>() +
               told["bytes_in_huge_pages"].get<uint64_t>() ==
           64 * kPage;
  })) << told;
  // In pages of the kernel's choice, or of small ones where it has none.
  EXPECT_EQ(told["bytes_in_huge_pages"].get<uint64_t>() % kPage, 0u);
}

TEST(NodeTest, EnginesThatReadTheSamePagesAtOnceCostOneWireRead) {
  TestCluster cluster([](NodeConfig* c) {
    c->pool_bytes = size_t{64} << 20;
    c->lease = milliseconds(10'000);  // four times 16 MiB take a while under a sanitizer
    c->peer_timeout = milliseconds(10'000);
  });
  const auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 64, 256 << 10);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  std::atomic<int> waiting{0};
  std::vector<std::thread> engines;
  for (int e = 0; e < 4; ++e) {
    engines.emplace_back([&] {
      TestEngine engine(b->socket(), 64, 256 << 10);
      const auto keys = TestEngine::Keys(0, 64);
      const auto segments = engine.Segments(64);
      std::vector<uint8_t> ok(64);
      // What else a get needs is done before, or one engine is through before another begins.
      for (size_t i = 0; i < 64; ++i) engine.Write(i, 1000 + i);
      ++waiting;
      while (waiting < 4) std::this_thread::yield();
      engine.client().Get(keys, segments, 2, ok);
      for (size_t i = 0; i < 64; ++i) EXPECT_TRUE(ok[i] == 1 && engine.Holds(i, i)) << i;
    });
  }
  for (std::thread& t : engines) t.join();
  // A thread that is late by a whole read may fetch for itself; all four cannot be.
  EXPECT_LT(CounterOf(*a, "served_pages"), 3u * 64);
  EXPECT_EQ(CounterOf(*b, "read_local_hits") + CounterOf(*b, "read_remote_hits") +
                CounterOf(*b, "read_replica_hits") + CounterOf(*b, "read_shared_hits"),
            4u * 64);
}

TEST(NodeTest, CallsOfOneEngineTakeTurnsAndAllAreServed) {
  TestCluster cluster([](NodeConfig* c) { c->engine_concurrency = 1; });
  const auto a = cluster.Start("a");
  TestEngine writer(a->socket(), 64, 64 << 10);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  std::atomic<size_t> calls{0}, hits{0};
  std::atomic<bool> enough{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      // One engine, so one session: the calls of its threads meet at the gate.
      const auto keys = TestEngine::Keys(16 * t, 16);
      const auto segments = writer.Segments(16, 16 * t);
      while (!enough) {
        std::vector<uint8_t> ok(keys.size());
        writer.client().Get(keys, segments, 2, ok);
        ++calls;
        hits += static_cast<size_t>(std::count(ok.begin(), ok.end(), uint8_t{1}));
      }
    });
  }
  // On a busy machine they may miss each other for a while.
  EXPECT_TRUE(Eventually(std::chrono::seconds(20),
                         [&] { return CounterOf(*a, "engine_calls_waited") > 0 && calls > 80; }));
  enough = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(hits, calls * 16);
}

TEST(NodeTest, AGetAfterExistsNeedsNoSecondLookup) {
  TestCluster cluster;
  const auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 32, 4096), reader(b->socket(), 32, 4096);
  ASSERT_EQ(writer.Set(0, 32), 32u);
  ASSERT_EQ(reader.Exists(0, 32), 32u);
  EXPECT_EQ(reader.Get(0, 32).hits, 32u);
  EXPECT_EQ(CounterOf(*b, "locations_recalled"), 32u);
}

TEST(NodeTest, ALocationThatIsRememberedTooLongIsLookedUpAgain) {
  TestCluster cluster([](NodeConfig* c) { c->lease = milliseconds(2000); });
  const auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine one(a->socket(), 32, 4096), two(b->socket(), 32, 4096);
  ASSERT_EQ(one.Set(0, 32), 32u);
  ASSERT_EQ(two.Exists(0, 32), 32u);
  ASSERT_TRUE(one.client().Clear(1).ok());
  ASSERT_EQ(one.Set(0, 32), 32u) << "the same pages, in other slots";
  const auto got = two.Get(0, 32);
  EXPECT_EQ(got.hits, 32u);
  EXPECT_EQ(got.wrong, 0u);
}

TEST(NodeTest, UnknownPagesAreMisses) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine engine(a->socket(), 16, kPage);
  EXPECT_EQ(engine.Get(77, 16).hits, 0u);
  EXPECT_EQ(engine.Exists(77, 16), 0u);
}

TEST(NodeTest, ExistsCountsTheLeadingRun) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 16, kPage), reader(b->socket(), 16, kPage);
  ASSERT_EQ(writer.Set(0, 8), 8u);
  ASSERT_EQ(writer.Set(9, 4), 4u);
  EXPECT_EQ(reader.Exists(0, 16), 8u);
  EXPECT_EQ(reader.client().Exists({}), 0u);
}

TEST(NodeTest, PresenceAnswersForEachKey) {
  TestCluster cluster;
  const auto a = cluster.Start("a"), b = cluster.Start("b");
  constexpr size_t kKeys = 300;
  TestEngine writer(a->socket(), 1, kPage), reader(b->socket(), 1, kPage);
  std::vector<uint8_t> expected(kKeys, 0);
  for (size_t i = 0; i < kKeys; i += 1 + i % 7) {  // some here, some at the other node
    ASSERT_EQ((i % 2 == 0 ? writer : reader).Set(i, 1), 1u);
    expected[i] = 1;
  }
  const auto keys = TestEngine::Keys(0, kKeys);
  std::vector<uint8_t> there(kKeys, 2);
  EXPECT_TRUE(reader.client().Presence(keys, there));
  EXPECT_EQ(there, expected);
  const auto run = std::find(there.begin(), there.end(), 0) - there.begin();
  EXPECT_EQ(reader.Exists(0, kKeys), static_cast<size_t>(run)) << "exists follows from presence";
  EXPECT_TRUE(reader.client().Presence({}, {}));
  const std::vector<Key> same(3, keys[0]);
  there.assign(3, 0);
  EXPECT_TRUE(reader.client().Presence(same, there));
  EXPECT_EQ(there, std::vector<uint8_t>(3, 1)) << "a key that is asked for three times";
}

TEST(NodeTest, PresenceOfMoreKeysThanOneMessageHolds) {
  TestCluster cluster;
  const auto a = cluster.Start("a");
  TestEngine engine(a->socket(), 2, kPage);
  const uint64_t last = kMaxItems + 1;
  ASSERT_EQ(engine.Set(0, 1) + engine.Set(last, 1), 2u);
  std::vector<uint8_t> there(last + 1);
  EXPECT_TRUE(engine.client().Presence(TestEngine::Keys(0, last + 1), there));
  EXPECT_EQ(std::count(there.begin(), there.end(), 1), 2);
  EXPECT_EQ(there.front() + there.back(), 2);
}

TEST(NodeTest, MemoryWithoutDescriptorGoesThroughTheStagingRing) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 64, kPage, false), reader(b->socket(), 64, kPage, false);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  const auto got = reader.Get(0, 64);
  EXPECT_EQ(got.hits, 64u);
  EXPECT_EQ(got.wrong, 0u);
  EXPECT_GT(reader.client().stats().staged_bytes, 0u);
}

TEST(NodeTest, MemoryThatIsMappedWhereOtherMemoryWasReplacesIt) {
  TestCluster cluster;
  const auto a = cluster.Start("a");
  TestEngine engine(a->socket(), 8, kPage);
  ASSERT_EQ(engine.Set(0, 8), 8u);
  // The engine gives its host pool up, and another memfd comes to lie at the same addresses.
  constexpr size_t kLength = 8 * kPage;
  const UniqueFd fd(memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), kLength), 0);
  const std::vector<Segment> segments = engine.Segments(8);
  void* const base = reinterpret_cast<void*>(segments.front().address);
  ASSERT_EQ(mmap(base, kLength, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd.get(), 0), base);
  ASSERT_TRUE(engine.client().RegisterRegion(fd.get(), base, kLength).ok());
  const auto got = engine.Get(0, 8);
  EXPECT_EQ(got.hits, 8u);
  EXPECT_EQ(got.wrong, 0u);
}

TEST(NodeTest, ClearDropsThePagesOfOneTagEverywhere) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine on_a(a->socket(), 16, kPage), on_b(b->socket(), 16, kPage);
  ASSERT_EQ(on_a.Set(0, 16, 7), 16u);
  ASSERT_EQ(on_b.Set(100, 16, 7), 16u);
  ASSERT_EQ(on_b.Set(200, 16, 8), 16u);
  ASSERT_TRUE(on_a.client().Clear(7).ok());
  EXPECT_EQ(on_a.Get(0, 16).hits, 0u);
  EXPECT_EQ(on_a.Get(100, 16).hits, 0u);
  EXPECT_EQ(on_a.Get(200, 16).hits, 16u);
  EXPECT_EQ(on_a.Set(0, 16, 7), 16u);  // and they can be set again
  EXPECT_EQ(on_b.Get(0, 16).hits, 16u);
}

TEST(NodeTest, ClearAlsoDropsPagesThatAreBeingReadJustNow) {
  TestCluster cluster([](NodeConfig* c) { c->lease = 200ms; });  // what is cleared makes room soon
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 64, kPage), reader(b->socket(), 64, kPage);
  for (int round = 0; round < 10; ++round) {
    ASSERT_EQ(writer.Set(0, 64, 7), 64u);
    std::atomic<bool> stop{false};
    std::thread load([&] {
      TestEngine busy(b->socket(), 64, kPage);
      while (!stop) busy.Get(0, 64);
    });
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(reader.client().Clear(7).ok());
    EXPECT_EQ(reader.Exists(0, 64), 0u);  // the records are gone too
    EXPECT_EQ(reader.Get(0, 64).hits, 0u);
    stop = true;
    load.join();
  }
}

TEST(NodeTest, AKeyWithBytesOfAnotherLengthIsRefused) {
  TestCluster cluster;
  auto a = cluster.Start("a");
  TestEngine small(a->socket(), 4, kPage), large(a->socket(), 4, 2 * kPage);
  ASSERT_EQ(small.Set(0, 4), 4u);
  EXPECT_EQ(large.Set(0, 4), 0u);
  EXPECT_EQ(large.Get(0, 4).hits, 0u);
  EXPECT_EQ(small.Get(0, 4).hits, 4u);
}

// Anybody who reaches the HTTP port reads it.
TEST(NodeTest, ReadyzNamesNoAddress) {
  TestCluster cluster;
  NodeConfig config = cluster.Config("alone");
  const std::string discovery = "127.0.0.1:" + std::to_string(TestCluster::FreePort());
  config.discovery_addr = discovery;
  config.peer_port = TestCluster::FreePort();  // or the node itself would host discovery
  auto node = Node::Start(config);
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  const auto readyz = HttpGet("127.0.0.1", (*node)->http_port(), "/readyz", 10s);
  ASSERT_TRUE(readyz.ok()) << readyz.status().ToString();
  EXPECT_EQ(readyz->status, 503);
  EXPECT_NE(readyz->body.find("no discovery host has answered yet"), std::string::npos);
  EXPECT_EQ(readyz->body.find(discovery), std::string::npos) << readyz->body;
}

TEST(NodeTest, TheSocketOfALiveNodeIsNotTakenOver) {
  TestCluster cluster;
  auto a = cluster.Start("a");
  NodeConfig config = cluster.Config("other");
  config.socket = a->socket();
  auto second = Node::Start(config);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(a->socket()), std::string::npos);
  TestEngine engine(a->socket(), 4, kPage);
  EXPECT_EQ(engine.Set(0, 4), 4u);
}

}  // namespace
}  // namespace peercache
