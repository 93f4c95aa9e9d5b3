// Whole nodes on loopback: members that join, leave, stop, die and come back.
#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "node/integration/node_status_testing.h"
#include "node/integration/node_testing.h"
#include "node/report/http_get.h"
#include "transport/tcp/channel.h"
#include "transport/tcp/socket.h"
#include "wire/heartbeat.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::MembersOf;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 64 << 10;

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
  TestCluster cluster([](NodeConfig* c) {
    // A page that is late on a busy machine is no miss, nor is a member that it stops gone.
    c->lease = c->peer_timeout = c->member_ttl = 10'000ms;
  });
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
  // And is read from by then, and for a while.
  const auto some_reads = [&] {
    const size_t before = reads;
    std::this_thread::sleep_for(300ms);
    EXPECT_TRUE(Eventually([&] { return reads >= before + 3 * 64; }));
  };
  for (int round = 0; round < 3; ++round) {
    auto c = cluster.Start("c" + std::to_string(round));
    some_reads();
    c->Leave(10s);
    c.reset();
    some_reads();
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
  TestCluster cluster([](NodeConfig* c) { c->peer_timeout = 1000ms; });
  auto a = cluster.Start("a"), b = cluster.Start("b"), c = cluster.Start("c");
  TestEngine reader(a->socket(), 64, kPage);
  {
    TestEngine writer(c->socket(), 64, kPage);
    ASSERT_TRUE(Eventually([&] { return writer.Set(0, 64) == 64u; }));
  }
  ASSERT_TRUE(Eventually([&] { return reader.Get(0, 64).hits == 64u; }));
  c.reset();  // without Leave: the others see a node that died
  for (int i = 0; i < 5; ++i) {
    const TimePoint start = Clock::now();
    EXPECT_EQ(reader.Get(0, 64).hits, 0u);
    EXPECT_LT(Clock::now() - start, 10s) << "the engine itself gives up after 15 s";
  }
  c = cluster.Start("c");
  TestEngine writer(c->socket(), 64, kPage);
  ASSERT_TRUE(Eventually([&] { return writer.Set(0, 64) == 64u; }));
  EXPECT_TRUE(Eventually([&] { return reader.Get(0, 64).hits == 64u; }));
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
  ASSERT_TRUE(Eventually([&] {
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
  EXPECT_TRUE(Eventually([&] { return left_out(*a) && left_out(*b); }));
  // It keeps nobody from publishing, nor from joining.
  TestEngine engine(b->socket(), 64, kPage);
  EXPECT_EQ(engine.Set(0, 64), 64u);
  auto c = cluster.Start("c");
  EXPECT_EQ(TestEngine(c->socket(), 64, kPage).Get(0, 64).hits, 64u);
}

// As in a cluster of both families, in either order: each is at one port for both.
TEST(NodeTest, AMemberOfIPv6AndOneOfIPv4ReadEachOther) {
  TestCluster cluster([](NodeConfig* c) {
    c->bind_addr = NodeConfig().bind_addr;
    c->insecure_peers = true;
    if (c->node_id == "b") c->advertise_addr = "::1";
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine at_a(a->socket(), 64, kPage), at_b(b->socket(), 64, kPage);
  ASSERT_TRUE(Eventually([&] { return at_a.Set(0, 64) == 64u && at_b.Set(64, 64) == 64u; }));
  EXPECT_TRUE(Eventually([&] { return at_b.Get(0, 64).hits == 64u; }));
  EXPECT_TRUE(Eventually([&] { return at_a.Get(64, 64).hits == 64u; }));
  for (const char* own : {"127.0.0.1", "::1"}) {
    const auto healthz = HttpGet(own, b->http_port(), "/healthz", 10s);
    EXPECT_TRUE(healthz.ok()) << own << ": " << healthz.status().ToString();
  }
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
  ASSERT_TRUE(Eventually([&] { return MembersOf(*a) == 3; }));
  std::thread stopping([&] {
    std::this_thread::sleep_for(50ms);
    a.reset();
  });
  (void)reader.Get(0, 64);
  for (size_t i = 0; i < 64; ++i) reader.Write(i, 1000 + i);
  stopping.join();
  for (size_t i = 0; i < 64; ++i) EXPECT_TRUE(reader.Holds(i, 1000 + i)) << i;
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
  ASSERT_TRUE(Eventually([&] { return second.Set(0, 64) == 64u; }));
  const auto got = reader.Get(0, 64);
  EXPECT_EQ(got.hits, 64u);
  EXPECT_EQ(got.wrong, 0u);
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
  ASSERT_TRUE(Eventually([&] { return engine.Set(0, 16) == 16u; }));
  EXPECT_EQ(engine.Get(0, 16).hits, 16u);
  EXPECT_GE(engine.client().stats().reconnects, 1u);
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

TEST(NodeTest, ANodeCanBeStoppedAtAnyMoment) {
  TestCluster cluster;
  for (int i = 0; i < 10; ++i) {
    auto node = cluster.Start("a" + std::to_string(i), /*wait=*/false);
    ASSERT_NE(node, nullptr);
    std::this_thread::sleep_for(milliseconds(i));
  }
}

}  // namespace
}  // namespace peercache
