// More tags are cleared than members remember one by one: only pages of those tags go, and where a
// member was away meanwhile, pages of those tenants.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "node/integration/node_testing.h"
#include "node/peer/peers.h"
#include "node/tenant/tenant_key.h"
#include "wire/clears.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::Eventually;
using testing::TempDir;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 64 << 10;
constexpr size_t kPages = 768;  // 48 MiB: half as much again as the pool
constexpr size_t kPiece = 64;
constexpr uint64_t kTag = 1;
constexpr auto kSoon = testing::kEndsAHang;

json StatusOf(const Node& node) { return json::parse(node.StatusJson()); }

// Two nodes with a disk each, and a third member, which tells them of its engines' clears: those of
// an engine are refused after some.
class ManyClears : public ::testing::Test {
 protected:
  ManyClears()
      : cluster_([this](NodeConfig* config) {
          config->disk_paths = {disks_.path() + "/" + config->node_id};
          mkdir(config->disk_paths[0].c_str(), 0700);
          config->disk_bytes = uint64_t{520} << 20;
          config->disk_write_budget = "unlimited";
        }) {}

  void Start() {
    a_ = cluster_.Start("a");
    b_ = cluster_.Start("b");
    See({{"a", a_.get()}, {"b", b_.get()}});
  }
  // Who is told.
  void See(const std::vector<std::pair<const char*, const Node*>>& nodes) {
    View view;
    for (const auto& [id, node] : nodes) {
      Member member;
      member.id = id;
      member.incarnation = 1;
      member.state = MemberState::kActive;
      member.host = "127.0.0.1";
      member.peer_port = node->peer_port();
      view.members.push_back(member);
      view.by_node.emplace(NodeHash(id), view.members.size() - 1);
    }
    peers_.Update(view);
  }
  // In the pool or on disk. A page of the disk may need a slot, which is free after a lease.
  static size_t HitsOf(const Node& node, Duration patience = kSoon, size_t pages = kPages) {
    TestEngine engine(node.socket(), kPiece, kPage);
    size_t hits = 0;
    for (size_t at = 0; at < pages; at += kPiece) {
      size_t here = 0;
      (void)Eventually(patience, [&] { return (here = engine.Get(at, kPiece).hits) == kPiece; });
      hits += here;
    }
    return hits;
  }
  void Tell(uint64_t tag) {
    const auto wall = std::chrono::system_clock::now().time_since_epoch() / 1ns;
    const ClearsMessage message{
        {{}, {{tag, static_cast<uint64_t>(wall)}}}, ClearsMessage::kMade, {}};
    CallGroup calls(peers_, CallGroup::Breaker::kIgnore);
    for (const PeerRef& peer : peers_.InView())
      message.Encode(&calls.Add(peer, MessageType::kClears).request);
    calls.Run(MessageType::kClearsOk, {kSoon, Clock::now() + kSoon});
    for (const auto& call : calls.calls()) ASSERT_TRUE(call->status.ok());
  }

  TempDir disks_{"/var/tmp"};
  TestCluster cluster_;
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", NodeHash("c"), 1}, secret_.get(), OwnerTimes{}};
  std::unique_ptr<Node> a_, b_;
};

TEST_F(ManyClears, PagesOfTagsThatNobodyClearsStay) {
  Start();
  {
    TestEngine engine(a_->socket(), kPiece, kPage);
    for (size_t at = 0; at < kPages; at += kPiece) {
      ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Set(at, kPiece, kTag) == kPiece; }));
      ASSERT_TRUE(Eventually(kSoon, [&] { return StatusOf(*a_)["disk"]["waiting_pages"] == 0u; }));
    }
    ASSERT_TRUE(Eventually(kSoon, [&] { return StatusOf(*a_)["disk"]["pages"] >= kPages; }));
  }
  for (uint64_t tag = 1000; tag < 1000 + kMostClears + 100; ++tag)
    ASSERT_NO_FATAL_FAILURE(Tell(tag));
  // And one of an engine.
  TestEngine engine(b_->socket(), kPiece, kPage);
  const Status cleared = engine.client().Clear(7);
  EXPECT_TRUE(cleared.ok()) << cleared.ToString();
  EXPECT_EQ(StatusOf(*a_)["disk"]["pages"], kPages);
  EXPECT_EQ(HitsOf(*a_), kPages);
  EXPECT_TRUE(Eventually(kSoon, [&] { return HitsOf(*b_) == kPages; }));

  // What they have forgotten they know after a restart as well.
  const uint16_t port = a_->peer_port();
  a_.reset();
  a_ = cluster_.Start("a", true, port);
  ASSERT_TRUE(Eventually(kSoon, [&] { return StatusOf(*a_)["disk"]["pages"] == kPages; }));
  EXPECT_TRUE(engine.client().Clear(8).ok());
  EXPECT_EQ(HitsOf(*a_), kPages);
  // A clear of theirs still drops them.
  EXPECT_TRUE(engine.client().Clear(kTag).ok());
  EXPECT_EQ(HitsOf(*a_, 100ms) + HitsOf(*b_, 100ms), 0u);
}

// 528 tags of a tenant are cleared while a member is away. It keeps what it has of others.
TEST_F(ManyClears, ThoseOfATenantCostAMemberThatWasAwayNoPageOfOthers) {
  Start();
  {
    TestEngine engine(a_->socket(), kPiece, kPage);
    ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Set(0, kPiece, kTag) == kPiece; }));
    ASSERT_TRUE(Eventually(kSoon, [&] { return StatusOf(*a_)["disk"]["pages"] == kPiece; }));
    ASSERT_TRUE(engine.client().Clear(7).ok());
  }
  const uint16_t port = a_->peer_port();
  a_.reset();
  See({{"b", b_.get()}});
  const auto key = TenantKey::Derive("test", "noisy", "");
  auto noisy = TenantBinding::Make(&*key);
  for (uint64_t tag = 0; tag < 528; ++tag) ASSERT_NO_FATAL_FAILURE(Tell(*noisy->BindTag(tag)));
  a_ = cluster_.Start("a", true, port);
  EXPECT_EQ(HitsOf(*a_, kSoon, kPiece), kPiece);
  EXPECT_EQ(StatusOf(*a_)["disk"]["pages"], kPiece);
}

}  // namespace
}  // namespace peercache
