// Nodes that leave, and what becomes of their pages: real nodes and engines on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "node/integration/node_testing.h"
#include "transport/tcp/channel.h"
#include "wire/messages.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::KeyOf;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 64 << 10;

nlohmann::json Drain(const Node& node) { return nlohmann::json::parse(node.StatusJson())["drain"]; }

// How many of the pages [first, first + count) are found, each asked for on its own.
size_t Found(TestEngine& engine, uint64_t first, size_t count) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto got = engine.Get(first + i, 1);
    EXPECT_EQ(got.wrong, 0u) << "page " << first + i;
    found += got.hits;
  }
  return found;
}

// With a lease as long as a real one, and time for peers: a machine that runs many tests is slow.
NodeConfig* Patient(NodeConfig* c) {
  c->lease = 1000ms;
  c->peer_timeout = 5000ms;
  return c;
}

TEST(MoveTest, ReadersMissNothingWhileANodeLeavesAndAfterwards) {
  TestCluster cluster([](NodeConfig* c) { Patient(c); });
  auto a = cluster.Start("a"), b = cluster.Start("b"), c = cluster.Start("c");
  TestEngine reader(a->socket(), 64, kPage);
  {
    TestEngine writer(c->socket(), 64, kPage);
    ASSERT_EQ(writer.Set(0, 64), 64u);
  }
  std::atomic<bool> stop{false};
  std::atomic<size_t> rounds{0}, missed{0}, wrong{0};
  std::thread load([&] {
    while (!stop) {
      const auto got = reader.Get(0, 64);
      missed += 64 - got.hits;
      wrong += got.wrong;
      ++rounds;
    }
  });
  EXPECT_TRUE(Eventually(15s, [&] { return rounds > 0; }));
  c->Leave(20s);
  EXPECT_EQ(Drain(*c)["moved"]["pages"], 64);
  EXPECT_EQ(Drain(*c)["moved"]["bytes"], 64 * kPage);
  EXPECT_EQ(Drain(*c)["left"]["pages"], 0);
  c.reset();
  const size_t then = rounds;
  EXPECT_TRUE(Eventually(15s, [&] { return rounds > then + 3; }));
  stop = true;
  load.join();
  EXPECT_EQ(missed, 0u);
  EXPECT_EQ(wrong, 0u);
  // They are where the others are, and both have some: what one of them has lost, it alone had.
  b->Leave(20s);
  b.reset();
  EXPECT_EQ(Found(reader, 0, 64), 64u);
}

TEST(MoveTest, TheBudgetGoesToThePagesThatAreReadMost) {
  TestCluster cluster([](NodeConfig* c) { Patient(c)->drain_budget = 16 * kPage; });
  auto a = cluster.Start("a"), c = cluster.Start("c");
  TestEngine reader(a->socket(), 64, kPage), writer(c->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(reader.Get(20, 16).hits, 16u);
  c->Leave(20s);
  c.reset();
  EXPECT_EQ(Found(reader, 20, 16), 16u);
  EXPECT_EQ(Found(reader, 0, 20) + Found(reader, 36, 28), 0u);
}

TEST(MoveTest, WithoutABudgetNothingMoves) {
  TestCluster cluster([](NodeConfig* c) { c->drain_budget = 0; });
  auto a = cluster.Start("a"), c = cluster.Start("c");
  TestEngine reader(a->socket(), 64, kPage), writer(c->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  c->Leave(20s);
  EXPECT_EQ(Drain(*c)["left"]["pages"], 64);
  EXPECT_EQ(reader.Exists(0, 64), 0u);
}

// A node whose small pool is full, and one that leaves.
class FullReceiverTest : public ::testing::Test {
 protected:
  static constexpr size_t kMost = 160;
  FullReceiverTest()
      : cluster_([](NodeConfig* c) {
          c->pool_bytes = size_t{8} << 20;
          c->promotion_percent = 0;
          c->watermarks = {.high = 0.95, .low = 0.94};
          c->lease = 500ms;
          c->peer_timeout = 3000ms;
        }),
        a_(cluster_.Start("a")),
        c_(cluster_.Start("c")),
        engine_(a_->socket(), kMost, kPage) {
    for (uint64_t n = 1000; n < 1000 + kMost; n += 8) engine_.Set(n, 8);
  }
  // Pages of a that are there.
  std::vector<uint64_t> Here() {
    std::vector<uint64_t> here;
    for (uint64_t n = 1000; n < 1000 + kMost; ++n)
      if (engine_.Exists(n, 1) == 1) here.push_back(n);
    return here;
  }
  // The same, when upkeep is done.
  std::vector<uint64_t> Settled() {
    std::vector<uint64_t> here = Here();
    EXPECT_TRUE(Eventually(15s, [&] {
      std::this_thread::sleep_for(300ms);
      return std::exchange(here, Here()) == here;
    }));
    EXPECT_LT(here.size(), kMost) << "nothing had to go: the pool is not full";
    return here;
  }
  void SetAtLeaver(int reads) {
    TestEngine writer(c_->socket(), 16, kPage);
    ASSERT_EQ(writer.Set(0, 16), 16u);
    for (int i = 0; i < reads; ++i) ASSERT_EQ(writer.Get(0, 16).hits, 16u);
  }

  TestCluster cluster_;
  std::unique_ptr<Node> a_, c_;
  TestEngine engine_;
};

TEST_F(FullReceiverTest, WhatIsReadMoreOftenThereDoesNotGo) {
  const auto hot = Settled();
  for (int i = 0; i < 3; ++i)
    for (const uint64_t n : hot) EXPECT_EQ(engine_.Get(n, 1).hits, 1u);
  SetAtLeaver(1);
  c_->Leave(20s);
  const auto drain = Drain(*c_);
  // What upkeep had freed beyond its reserve may take one or two.
  EXPECT_LE(drain["moved"]["pages"], 3) << drain;
  EXPECT_GE(drain["refused"]["pages"], 13) << drain;
  c_.reset();
  EXPECT_EQ(Settled(), hot);
}

TEST_F(FullReceiverTest, OneColdPageGivesWayForOneOnly) {
  auto here = Settled();
  ASSERT_GT(here.size(), 1u);
  here.erase(here.begin());  // the cold one
  for (int i = 0; i < 3; ++i)
    for (const uint64_t n : here) EXPECT_EQ(engine_.Get(n, 1).hits, 1u);
  SetAtLeaver(1);
  c_->Leave(20s);
  // The one, and what upkeep had freed beyond its reserve.
  EXPECT_GE(Drain(*c_)["moved"]["pages"], 1) << Drain(*c_);
  EXPECT_LE(Drain(*c_)["moved"]["pages"], 3) << Drain(*c_);
}

TEST_F(FullReceiverTest, WhatIsReadLessOftenGivesWay) {
  (void)Settled();
  SetAtLeaver(5);
  c_->Leave(20s);
  const size_t moved = Drain(*c_)["moved"]["pages"];
  EXPECT_GE(moved, 8u) << Drain(*c_);
  c_.reset();
  EXPECT_EQ(Found(engine_, 0, 16), moved);
}

TEST(MoveTest, AReceiverThatDiesLeavesItsShareToTheOthers) {
  constexpr size_t kSmall = 8 << 10;  // a slow machine reads all that is offered within a lease
  TestCluster cluster([](NodeConfig* c) { Patient(c)->lease = 2000ms; });
  auto a = cluster.Start("a"), b = cluster.Start("b"), c = cluster.Start("c");
  TestEngine reader(a->socket(), 256, kSmall);
  {
    TestEngine writer(c->socket(), 256, kSmall);
    ASSERT_EQ(writer.Set(0, 256), 256u);
  }
  std::atomic<bool> left{false};
  std::thread leaving([&] {
    c->Leave(20s);
    left = true;
  });
  EXPECT_TRUE(Eventually(20s, [&] { return left || Drain(*c)["moved"]["pages"] > 0; }));
  b.reset();  // as one that was killed
  leaving.join();
  const size_t moved = Drain(*c)["moved"]["pages"];
  EXPECT_GT(moved, 0u);
  c.reset();
  // What b had taken died with it; a has the rest.
  const size_t here = nlohmann::json::parse(a->StatusJson())["pool"]["pages"];
  EXPECT_GT(here, 0u);
  EXPECT_TRUE(Eventually(15s, [&] {
    const auto got = reader.Get(0, 256);
    EXPECT_EQ(got.wrong, 0u);
    return got.hits == here;
  }));
}

// Speaks to a node as one that leaves and knows the node's secret.
class Offerer {
 public:
  explicit Offerer(uint16_t port)
      : channel_({"127.0.0.1", port}, Hello{"test", "", NodeHash("x"), 1}) {}

  // Offers until that is done; empty when there was no answer.
  std::vector<uint8_t> Offer(uint64_t batch, const std::vector<OfferItem>& items) {
    FrameWriter request;
    request.Start(MessageType::kOffer, 1);
    EncodeOffer(NodeHash("x"), batch, items, &request);
    request.Finish();
    OfferAnswer answer;
    const bool done = Eventually(30s, [&] {
      channel_.Begin(request.bytes(), nullptr, Clock::now());
      Channel* const channels[] = {&channel_};
      RunAll(channels, {10s, Clock::now() + 10s});
      FrameReader body = channel_.body();
      return !channel_.status().ok() || !answer.Decode(&body) || answer.done == 1;
    });
    return done && channel_.status().ok() ? answer.outcomes : std::vector<uint8_t>{};
  }
  // Without waiting for what becomes of it.
  void Begin(uint64_t batch, const std::vector<OfferItem>& items) {
    FrameWriter request;
    request.Start(MessageType::kOffer, 1);
    EncodeOffer(NodeHash("x"), batch, items, &request);
    request.Finish();
    channel_.Begin(request.bytes(), nullptr, Clock::now());
    Channel* const channels[] = {&channel_};
    RunAll(channels, {10s, Clock::now() + 10s});
    EXPECT_TRUE(channel_.status().ok()) << channel_.status().ToString();
  }

 private:
  Channel channel_;
};

std::vector<OfferItem> Items(uint64_t first, size_t count, uint32_t length = kPage) {
  std::vector<OfferItem> items;
  for (size_t i = 0; i < count; ++i) items.push_back({KeyOf(first + i), 1, length, 3});
  return items;
}

TEST(MoveTest, ALeaverThatDiesLeavesPagesThatAreRightOrAbsent) {
  TestCluster cluster([](NodeConfig* c) { Patient(c); });
  auto a = cluster.Start("a"), c = cluster.Start("c");
  TestEngine reader(a->socket(), 256, kPage);
  {
    TestEngine writer(c->socket(), 256, kPage);
    ASSERT_EQ(writer.Set(0, 256), 256u);
  }
  Offerer offerer(a->peer_port());
  const auto items = Items(0, 256);
  offerer.Begin(1, items);
  c.reset();  // as one that was killed
  const auto outcomes = offerer.Offer(1, items);
  ASSERT_EQ(outcomes.size(), 256u);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const auto got = reader.Get(i, 1);
    EXPECT_EQ(got.wrong, 0u) << i;
    EXPECT_GE(got.hits, outcomes[i] == kTaken ? 1u : 0u) << i;
  }
}

TEST(MoveTest, WhatNobodyHasOrIsOfAnotherLengthIsNotTaken) {
  TestCluster cluster([](NodeConfig* c) { Patient(c); });
  auto a = cluster.Start("a"), c = cluster.Start("c");
  TestEngine writer(c->socket(), 16, kPage), reader(a->socket(), 16, kPage);
  ASSERT_EQ(writer.Set(0, 16), 16u);
  Offerer offerer(a->peer_port());
  auto items = Items(0, 4);
  items.push_back({KeyOf(500), 1, kPage, 3});      // nobody has it
  items.push_back({KeyOf(4), 1, kPage / 2, 3});    // another length
  items.push_back({KeyOf(5), 1, 0, 3});            // no page
  items.push_back({KeyOf(6), 1, UINT32_MAX, 15});  // more than the pool
  EXPECT_THAT(offerer.Offer(1, items),
              ::testing::ElementsAre(kTaken, kTaken, kTaken, kTaken, kNotTaken, kNotTaken, kNoRoom,
                                     kNoRoom));
  // The same again, as after an answer that was lost.
  EXPECT_THAT(offerer.Offer(1, Items(0, 4)).size(), 4u);
  EXPECT_THAT(offerer.Offer(2, Items(0, 4)), ::testing::Each(kTaken));
  c.reset();
  EXPECT_EQ(reader.Get(0, 4).wrong, 0u);
  EXPECT_EQ(reader.Get(0, 4).hits, 4u);
}

TEST(MoveTest, PagesThatMovedAreClearedByTheirTag) {
  TestCluster cluster([](NodeConfig* c) { Patient(c); });
  auto a = cluster.Start("a"), b = cluster.Start("b"), c = cluster.Start("c");
  TestEngine reader(a->socket(), 64, kPage);
  {
    TestEngine writer(c->socket(), 64, kPage);
    ASSERT_EQ(writer.Set(0, 64, /*tag=*/7), 64u);
  }
  c->Leave(20s);
  c.reset();
  ASSERT_EQ(Found(reader, 0, 64), 64u);
  EXPECT_TRUE(Eventually(15s, [&] { return reader.client().Clear(7).ok(); }));
  EXPECT_EQ(Found(reader, 0, 64), 0u);
}

TEST(MoveTest, ANodeThatIsAloneLeavesAtOnce) {
  TestCluster cluster;
  auto a = cluster.Start("a");
  TestEngine writer(a->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  const TimePoint start = Clock::now();
  a->Leave(60s);
  EXPECT_LT(Clock::now() - start, 20s);
  EXPECT_EQ(Drain(*a)["moved"]["pages"], 0);
}

TEST(MoveTest, AllNodesLeaveTogether) {
  TestCluster cluster;
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  const TimePoint start = Clock::now();
  std::thread other([&] { b->Leave(20s); });
  a->Leave(20s);
  other.join();
  EXPECT_LT(Clock::now() - start, 40s);
}

}  // namespace
}  // namespace peercache
