// Links to a whole node: made over TCP with the cluster's token, bounded, closed when idle. As
// node_fabric_test.cc, all in one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "node/integration/node_fabric_testing.h"
#include "node/rails/links.h"
#include "transport/rdma/fabric_testing.h"
#include "transport/rdma/run_reads.h"
#include "transport/tcp/socket.h"

namespace peercache {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::Eventually;
using testing::TestCluster;
using testing::UseRails;

constexpr char kToken[] = "the-token-of-this-cluster";

// A node that can be read, and what a reader needs that is no node.
struct World {
  testing::TempDir files;
  TestCluster cluster{[this](NodeConfig* c) {
    UseRails(c);
    c->auth_token_file = files.Write("token", kToken);
    c->auth_spread = seconds(1);
  }};
  std::unique_ptr<Node> holder = cluster.Start("holder");
  std::unique_ptr<rdma::Rails> rails = rdma::OpenTestRails();
  rdma::RegisteredMemory registered;
  HeaderMemory headers{rails.get(), &registered};
};

class LinksFabricTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    world_ = new World;
    ASSERT_TRUE(world_->holder);
    // Registered once, with the first link.
    auto block = world_->headers.Take();
    ASSERT_TRUE(block.ok()) << block.status().ToString();
    world_->headers.Return(*block);
  }
  static void TearDownTestSuite() {
    world_->rails->Stop();
    delete world_;
  }

  static Result<std::unique_ptr<Secret>> Token(const std::string& token) {
    return Secret::Of(token, "test", minutes(1));
  }
  // Whom a reader knows that has this token: the holder.
  struct Known {
    Known(Result<std::unique_ptr<Secret>> token, const Node& node)
        : secret(std::move(*token)),
          peers(Hello{"test", "", NodeHash("reader"), 1}, secret.get(), OwnerTimes{}) {
      Add("holder", node.peer_port());
    }
    void Add(const std::string& id, uint16_t port) {
      Member member;
      member.id = id;
      member.incarnation = 1;
      member.host = "127.0.0.1";
      member.peer_port = port;
      view.by_node[NodeHash(id)] = view.members.size();
      view.members.push_back(member);
      peers.Update(view);
    }
    PeerRef peer(const std::string& id) const { return peers.Find(NodeHash(id)); }
    PeerRef holder() const { return peer("holder"); }
    const std::unique_ptr<Secret> secret;
    Peers peers;
    View view;
  };
  static std::unique_ptr<Links> LinksOf(const Known& known, LinkOptions options) {
    if (options.connect == Duration::zero()) options.connect = seconds(5);
    return std::make_unique<Links>(options, world_->rails.get(), &known.peers, &world_->headers,
                                   &world_->registered);
  }
  // A call waits for a moment only: others come until one of them has a link.
  static std::unique_ptr<Link> Await(Links* links, const Known& known,
                                     const std::string& peer = "holder") {
    std::unique_ptr<Link> link;
    EXPECT_TRUE(Eventually(seconds(20), [&] {
      link = links->Take(known.peer(peer), Clock::now());
      return link != nullptr;
    }));
    return link;
  }
  static size_t Serving(const World& world) {
    return testing::Status(*world.holder)["transport"]["queue_pairs_serving"];
  }
  static size_t Serving() { return Serving(*world_); }
  // Whether the first bytes of the holder's pool come over the link.
  static bool Reads(World* world, Link* link) {
    auto block = world->headers.Take();
    if (!block.ok()) return false;
    const Bytes to[] = {std::as_writable_bytes(block->headers.first(1))};
    const rdma::PageRead read{
        .key = {}, .length = static_cast<uint32_t>(to[0].size()), .to = to, .bare = true};
    rdma::PageState state{};
    const auto ranges = world->registered.ranges();
    const TimePoint now = Clock::now();
    link->channel->Begin(std::span(&read, 1), *ranges, {}, std::span(&state, 1), seconds(2), now);
    const rdma::RunningRead running{link->channel.get(), -1};  // it need not hear of the end
    rdma::RunReads(std::span(&running, 1), {now + seconds(10), {}});
    world->headers.Return(*block);
    return state == rdma::PageState::kRead;
  }
  // What this process has open, and what the kernel keeps of each kind for it.
  static std::vector<size_t> Open() {
    world_->rails->Drain();
    return {rdma::OpenFiles(), rdma::CountOf("qp"), rdma::CountOf("cq"), rdma::CountOf("mr")};
  }

  static inline World* world_ = nullptr;
};

TEST_F(LinksFabricTest, AThousandConnectionsLeaveNothingBehind) {
  const Known known(Token(kToken), *world_->holder);
  const std::vector<size_t> before = Open();
  EXPECT_GT(before.back(), 0u) << "the kernel counts";
  for (int i = 0; i < 1000 && !HasFailure(); ++i) {
    const auto links = LinksOf(known, {});
    auto link = Await(links.get(), known);
    ASSERT_TRUE(link);
    ASSERT_GT(link->channel->queues(), 0u);
    links->Return(std::move(link));
  }
  EXPECT_TRUE(Eventually(seconds(20),
                         [&] {
                           const std::vector<size_t> now = Open();
                           return Serving() == 0 && std::equal(now.begin(), now.end(),
                                                               before.begin(), std::less_equal());
                         }))
      << ::testing::PrintToString(Open()) << ", before: " << ::testing::PrintToString(before);
}

TEST_F(LinksFabricTest, AWrongTokenOpensNoQueuePair) {
  const Known stranger(Token("a-token-of-another-cluster"), *world_->holder);
  const auto links = LinksOf(stranger, {});
  EXPECT_TRUE(Eventually(seconds(20), [&] {
    return links->Take(stranger.holder(), Clock::now()) || links->stats().failed > 0;
  }));
  EXPECT_EQ(links->stats().made, 0u);
  EXPECT_EQ(Serving(), 0u);
}

// Whoever made it has the keys of the pool, and keeps its end.
TEST_F(LinksFabricTest, AQueuePairOfAnEndedSecretReadsNothing) {
  World world;
  ASSERT_TRUE(world.holder);
  {
    const Known known(Token(kToken), *world.holder);
    Links links({.connect = seconds(5)}, world.rails.get(), &known.peers, &world.headers,
                &world.registered);
    auto link = Await(&links, known);
    ASSERT_TRUE(link);
    EXPECT_TRUE(Reads(&world, link.get()));
    world.files.Write("token", "another-token-of-this-cluster");
    EXPECT_TRUE(Eventually(seconds(20), [&] { return Serving(world) == 0; }));
    EXPECT_FALSE(Reads(&world, link.get()));
    EXPECT_EQ(link->channel->queues(), 0u);
    links.Return(std::move(link));
  }
  world.rails->Stop();
}

TEST_F(LinksFabricTest, IdleLinksAreClosedOnBothSides) {
  const Known known(Token(kToken), *world_->holder);
  const std::vector<size_t> before = Open();
  const auto links = LinksOf(known, {.idle = milliseconds(300)});
  auto used = Await(links.get(), known), idle = Await(links.get(), known);
  ASSERT_TRUE(used && idle);
  EXPECT_EQ(links->stats().links, 2u);
  links->Return(std::move(idle));
  EXPECT_TRUE(Eventually(seconds(20), [&] { return links->stats().links == 1; }));
  EXPECT_GT(used->channel->queues(), 0u) << "one that a call has is not idle";
  links->Return(std::move(used));
  EXPECT_TRUE(Eventually(seconds(20), [&] { return links->stats().links == 0; }));
  EXPECT_TRUE(Eventually(seconds(20), [&] { return Serving() == 0; }));
  EXPECT_LE(Open()[1], before[1]) << "queue pairs that the kernel keeps";
  EXPECT_EQ(links->stats().queues, 0u);
  EXPECT_TRUE(Await(links.get(), known)) << "the next call gets a new one";
  EXPECT_GE(links->stats().made, 3u);
}

TEST_F(LinksFabricTest, QueuePairsToPeersAreBounded) {
  const Known known(Token(kToken), *world_->holder);
  const auto most = static_cast<uint32_t>(2 * world_->rails->size());
  const auto links = LinksOf(known, {.max_queues = most + 1, .idle = minutes(1)});
  auto first = Await(links.get(), known), second = Await(links.get(), known);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(links->stats().queues, most);
  const uint64_t refused = links->stats().refused;
  EXPECT_FALSE(links->Take(known.holder(), Clock::now())) << "a third";
  EXPECT_GT(links->stats().refused, refused);
  EXPECT_EQ(links->stats().queues, most);
  links->Return(std::move(first));
  EXPECT_TRUE(links->Take(known.holder(), Clock::now())) << "one that nobody has any more";
  EXPECT_EQ(links->stats().made, 2u);
}

TEST_F(LinksFabricTest, AsManyAreKeptAsCallsHadAtOnce) {
  const Known known(Token(kToken), *world_->holder);
  const auto links = LinksOf(known, {.idle = minutes(1)});
  for (int i = 0; i < 2; ++i) {
    std::vector<std::unique_ptr<Link>> taken;
    while (taken.size() < 12 && !HasFailure()) taken.push_back(Await(links.get(), known));
    for (auto& link : taken) links->Return(std::move(link));
    EXPECT_EQ(links->stats().links, 12u);
  }
  EXPECT_EQ(links->stats().made, 12u);
}

TEST_F(LinksFabricTest, WhereThereIsNoRoomTheLongestIdleGoes) {
  const auto second = world_->cluster.Start("second");
  ASSERT_TRUE(second);
  Known known(Token(kToken), *world_->holder);
  known.Add("second", second->peer_port());
  const auto most = static_cast<uint32_t>(2 * world_->rails->size());
  const auto links = LinksOf(known, {.max_queues = most, .idle = minutes(1)});
  auto first = Await(links.get(), known), later = Await(links.get(), known);
  ASSERT_TRUE(first && later);
  const rdma::ReadChannel* const kept = later->channel.get();
  links->Return(std::move(first));
  links->Return(std::move(later));
  ASSERT_TRUE(Await(links.get(), known, "second"));
  EXPECT_EQ(links->stats().queues, most);
  EXPECT_EQ(links->stats().refused, 0u);
  const auto link = links->Take(known.holder(), Clock::now());
  ASSERT_TRUE(link);
  EXPECT_EQ(link->channel.get(), kept);
}

// They take connections and answer nothing, as machines of which only the kernel is alive. There
// are three of them for each thread that makes links, and calls have asked for theirs earlier.
TEST_F(LinksFabricTest, SilentPeersHoldUpNoOther) {
  constexpr Duration kConnect = milliseconds(300);
  Known known(Token(kToken), *world_->holder);
  std::vector<Listener> silent;
  std::vector<PeerRef> peers;
  for (int i = 0; i < 24; ++i) {
    auto listener = Listen("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    silent.push_back(std::move(*listener));
    const std::string id = "silent" + std::to_string(i);
    known.Add(id, silent.back().port);
    peers.push_back(known.peer(id));
  }
  const auto links = LinksOf(known, {.connect = kConnect, .idle = minutes(1)});
  std::vector<std::thread> calls;  // at once: each waits a moment for its link
  for (const PeerRef& peer : peers)
    calls.emplace_back([&] { EXPECT_FALSE(links->Take(peer, Clock::now())); });
  for (std::thread& call : calls) call.join();
  const TimePoint start = Clock::now();
  EXPECT_TRUE(Await(links.get(), known));
  EXPECT_LT(Clock::now() - start, 2 * kConnect) << "it waited for more than one silent peer";
}

}  // namespace
}  // namespace peercache
