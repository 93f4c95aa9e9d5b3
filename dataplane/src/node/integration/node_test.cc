// Whole nodes on loopback: what engines are promised.

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "node/integration/node_testing.h"
#include "node/report/http_get.h"
#include "transport/tcp/channel.h"
#include "transport/tcp/socket.h"
#include "wire/heartbeat.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 64 << 10;

uint64_t PoolNumber(const Node& node, const char* name) {
  return nlohmann::json::parse(node.StatusJson())["pool"][name].get<uint64_t>();
}

uint64_t CounterOf(const Node& node, const char* name) {
  return nlohmann::json::parse(node.StatusJson())["counters"][name];
}
size_t MembersOf(Node& node) { return nlohmann::json::parse(node.StatusJson())["members"].size(); }

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

TEST(NodeTest, AReaderThatJoinsJustNowSeesASetThatHasReturned) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  auto c = cluster.Start("c", /*wait=*/false);
  TestEngine reader(c->socket(), 64, kPage);
  const auto got = reader.Get(0, 64);
  EXPECT_EQ(got.hits, 64u);
  EXPECT_EQ(got.wrong, 0u);
}

TEST(NodeTest, JoiningAndLeavingCostsNoHitForPagesOfOthers) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 64, kPage), reader(b->socket(), 64, kPage);
  std::atomic<bool> stop{false};
  std::atomic<size_t> reads{0}, missed{0}, wrong{0};
  ASSERT_EQ(writer.Set(0, 64), 64u);
  std::thread load([&] {
    while (!stop) {
      const auto got = reader.Get(0, 64);
      reads += 64;
      missed += 64 - got.hits;
      wrong += got.wrong;
    }
  });
  for (int round = 0; round < 3; ++round) {
    auto c = cluster.Start("c" + std::to_string(round));
    std::this_thread::sleep_for(300ms);
    c->Leave(10s);
    c.reset();
    std::this_thread::sleep_for(300ms);
  }
  stop = true;
  load.join();
  EXPECT_GT(reads, 64u);
  EXPECT_EQ(missed, 0u);
  EXPECT_EQ(wrong, 0u);
}

// Its process still runs for a while, and would keep its records fresh.
TEST(NodeTest, PagesOfANodeThatHasLeftAreNotPromised) {
  TestCluster cluster([](NodeConfig* c) { c->drain_budget = 0; });
  auto a = cluster.Start("a"), b = cluster.Start("b"), c = cluster.Start("c");
  TestEngine reader(a->socket(), 64, kPage), writer(c->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  ASSERT_EQ(reader.Exists(0, 64), 64u);
  c->Leave(10s);
  EXPECT_EQ(reader.Exists(0, 64), 0u);
  EXPECT_EQ(writer.Set(100, 64), 0u);
  EXPECT_EQ(reader.Exists(100, 64), 0u);
}

TEST(NodeTest, ADeadPeerCostsABoundedWaitAndComesBack) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b"), c = cluster.Start("c");
  TestEngine reader(a->socket(), 64, kPage);
  {
    TestEngine writer(c->socket(), 64, kPage);
    ASSERT_EQ(writer.Set(0, 64), 64u);
  }
  ASSERT_EQ(reader.Get(0, 64).hits, 64u);
  c.reset();  // without Leave: the others see a node that died
  for (int i = 0; i < 5; ++i) {
    const TimePoint start = Clock::now();
    EXPECT_EQ(reader.Get(0, 64).hits, 0u);
    EXPECT_LT(Clock::now() - start, 1s);
  }
  c = cluster.Start("c");
  TestEngine writer(c->socket(), 64, kPage);
  ASSERT_TRUE(Eventually(10s, [&] { return writer.Set(0, 64) == 64u; }));
  EXPECT_TRUE(Eventually(10s, [&] { return reader.Get(0, 64).hits == 64u; }));
}

// A member that heartbeats, but answers nobody at the port that it names.
class Stranger {
 public:
  Stranger(uint16_t host_port, uint16_t port)
      : thread_([this, host_port, port] {
          Member member;
          member.id = "x";
          member.incarnation = 1;
          member.state = MemberState::kActive;
          member.host = "127.0.0.1";
          member.peer_port = port;
          member.capacity_bytes = uint64_t{1} << 30;
          FrameWriter heartbeat;
          heartbeat.Start(MessageType::kHeartbeat, 1);
          Heartbeat{member, {}}.Encode(&heartbeat);
          heartbeat.Finish();
          Channel channel({"127.0.0.1", host_port}, {"test", "", NodeHash("x"), 1});
          Channel* const channels[] = {&channel};
          while (!stop_ && channel.status().ok()) {
            channel.Begin(heartbeat.bytes(), nullptr, Clock::now());
            RunAll(channels, {1s, Clock::now() + 1s});
            std::this_thread::sleep_for(50ms);
          }
        }) {}
  ~Stranger() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Behind a firewall, or with an address that is not its own: hosts hear it, nobody reaches it.
TEST(NodeTest, AMemberThatCannotBeConnectedToIsInNoRing) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  const auto seen = [](Node& node) { return nlohmann::json::parse(node.StatusJson()); };
  nlohmann::json before;
  ASSERT_TRUE(Eventually(10s, [&] {
    const auto status = seen(*a);
    before = status["ring_fingerprint"];
    return seen(*b)["ring_fingerprint"] == before && status["members"][1]["state"] == "active";
  }));
  const Stranger stranger(a->peer_port(), TestCluster::FreePort());
  const auto left_out = [&](Node& node) {
    const auto status = seen(node);
    const auto& members = status["members"];
    return members.size() == 3 && members[2]["reachable"] == false &&
           members[0]["reachable"] == true && status["ring_fingerprint"] == before;
  };
  EXPECT_TRUE(Eventually(10s, [&] { return left_out(*a) && left_out(*b); }));
  // It keeps nobody from publishing, nor from joining.
  TestEngine engine(b->socket(), 64, kPage);
  EXPECT_EQ(engine.Set(0, 64), 64u);
  auto c = cluster.Start("c");
  EXPECT_EQ(TestEngine(c->socket(), 64, kPage).Get(0, 64).hits, 64u);
}

// The engine gives its pages to others as soon as it takes a call for over.
TEST(NodeTest, ANodeThatStopsLetsGoOfAnEnginesPagesBeforeTheEngineHearsOfIt) {
  TestCluster cluster([](NodeConfig* c) {
    c->peer_timeout = 3000ms;
    c->lease = 3000ms;  // pages that are found late are read all the same
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine reader(a->socket(), 64, kPage), writer(b->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  // Lookups wait for this one's part of the directory; after that the other pages are read.
  auto silent = Listen("127.0.0.1", 0);
  ASSERT_TRUE(silent.ok());
  const Stranger stranger(a->peer_port(), silent->port);
  ASSERT_TRUE(Eventually(10s, [&] { return MembersOf(*a) == 3; }));
  std::thread stopping([&] {
    std::this_thread::sleep_for(50ms);
    a.reset();
  });
  (void)reader.Get(0, 64);
  for (size_t i = 0; i < 64; ++i) reader.Write(i, 1000 + i);
  stopping.join();
  for (size_t i = 0; i < 64; ++i) EXPECT_TRUE(reader.Holds(i, 1000 + i)) << i;
}

// Of every page that an engine of `node` reads a second time.
bool Promotes(TestEngine& reader, Node& node, uint64_t first, size_t count) {
  for (int i = 0; i < 2; ++i)
    if (reader.Get(first, count).hits != count) return false;
  return Eventually(5s, [&] {
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
  EXPECT_TRUE(Eventually(10s, [&] {
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

TEST(NodeTest, AnotherNodeCanSetThePagesOfADeadOne) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b"), c = cluster.Start("c");
  TestEngine reader(a->socket(), 64, kPage), second(b->socket(), 64, kPage);
  {
    TestEngine writer(c->socket(), 64, kPage);
    ASSERT_EQ(writer.Set(0, 64), 64u);
  }
  c.reset();
  ASSERT_TRUE(Eventually(10s, [&] { return second.Set(0, 64) == 64u; }));
  const auto got = reader.Get(0, 64);
  EXPECT_EQ(got.hits, 64u);
  EXPECT_EQ(got.wrong, 0u);
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
  TestCluster cluster;
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

TEST(NodeTest, EnginesSurviveARestartOfTheirNode) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine engine(b->socket(), 16, kPage);
  ASSERT_EQ(engine.Set(0, 16), 16u);
  b.reset();
  EXPECT_EQ(engine.Get(0, 16).hits, 0u);
  EXPECT_EQ(engine.Exists(0, 16), 0u);
  b = cluster.Start("b");
  ASSERT_TRUE(Eventually(10s, [&] { return engine.Set(0, 16) == 16u; }));
  EXPECT_EQ(engine.Get(0, 16).hits, 16u);
  EXPECT_GE(engine.client().stats().reconnects, 1u);
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

TEST(NodeTest, NodesOfAnotherClusterAreRefused) {
  TestCluster cluster;
  auto a = cluster.Start("a");
  NodeConfig config = cluster.Config("stranger");
  config.cluster = "another";
  auto stranger = Node::Start(config);
  ASSERT_TRUE(stranger.ok()) << stranger.status().ToString();
  std::this_thread::sleep_for(500ms);
  EXPECT_FALSE((*stranger)->ready());
  EXPECT_EQ(MembersOf(*a), 1u);
}

// Anybody who reaches the HTTP port reads it.
TEST(NodeTest, ReadyzNamesNoAddress) {
  TestCluster cluster;
  NodeConfig config = cluster.Config("alone");
  const std::string discovery = "127.0.0.1:" + std::to_string(TestCluster::FreePort());
  config.discovery_addr = discovery;
  auto node = Node::Start(config);
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  const auto readyz = HttpGet("127.0.0.1", (*node)->http_port(), "/readyz", 10s);
  ASSERT_TRUE(readyz.ok()) << readyz.status().ToString();
  EXPECT_EQ(readyz->status, 503);
  EXPECT_NE(readyz->body.find("no discovery host has answered yet"), std::string::npos);
  EXPECT_EQ(readyz->body.find(discovery), std::string::npos) << readyz->body;
}

TEST(NodeTest, ANodeCanBeStoppedAtAnyMoment) {
  TestCluster cluster;
  for (int i = 0; i < 10; ++i) {
    auto node = cluster.Start("a" + std::to_string(i), /*wait=*/false);
    ASSERT_NE(node, nullptr);
    std::this_thread::sleep_for(milliseconds(i));
  }
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
