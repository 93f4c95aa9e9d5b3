// Whole nodes that say they are on two machines: a page is read from the holder that is nearer.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "node/integration/node_testing.h"
#include "transport/tcp/channel.h"
#include "wire/messages.h"

namespace peercache {
namespace {

using testing::Eventually;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 16 << 10;
constexpr size_t kPages = 64;

uint64_t Served(const Node& node) {
  return nlohmann::json::parse(node.StatusJson())["counters"]["served_pages"];
}

TEST(NodeNearestTest, TheHolderOnTheReadersMachineIsReadAndTheOthersWhenItIsGone) {
  TestCluster cluster([](NodeConfig* c) {
    c->machine = c->node_id.starts_with("far") ? 1 : 2;
    c->promotion_percent = 0;
  });
  auto far1 = cluster.Start("far1"), far2 = cluster.Start("far2"), near = cluster.Start("near");
  const auto here = cluster.Start("here");
  for (const Node* holder : {far1.get(), far2.get(), near.get()}) {
    TestEngine writer(holder->socket(), kPages, kPage);
    ASSERT_EQ(writer.Set(0, kPages), kPages);
  }
  TestEngine reader(here->socket(), kPages, kPage);
  // Which machine a peer is on is known once it has answered, as it does to keepalives.
  const auto get = [&](uint64_t* from_near, uint64_t* from_far) {
    const uint64_t near_before = near ? Served(*near) : 0;
    const uint64_t far_before = Served(*far1) + Served(*far2);
    std::this_thread::sleep_for(milliseconds(250));  // longer than locations are remembered
    const auto got = reader.Get(0, kPages);
    EXPECT_EQ(got.wrong, 0u);
    *from_near = near ? Served(*near) - near_before : 0;
    *from_far = Served(*far1) + Served(*far2) - far_before;
    return got.hits;
  };
  uint64_t from_near = 0, from_far = 0;
  EXPECT_TRUE(Eventually(
      std::chrono::seconds(20),
      [&] { return get(&from_near, &from_far) == kPages && from_near == kPages && from_far == 0; }))
      << from_near << " pages from the near one, " << from_far << " from the far ones";
  near.reset();
  EXPECT_TRUE(
      Eventually(std::chrono::seconds(20),
                 [&] { return get(&from_near, &from_far) == kPages && from_far == kPages; }))
      << from_far << " pages from the far ones";
  EXPECT_GT(Served(*far1), 0u) << "equals share the readers";
  EXPECT_GT(Served(*far2), 0u) << "equals share the readers";
}

// Readers of an older release would not understand more than one record for a key.
TEST(NodeNearestTest, OneHolderIsNamedToReadersThatDoNotChoose) {
  TestCluster cluster;
  const auto a = cluster.Start("a"), b = cluster.Start("b");
  for (const Node* holder : {a.get(), b.get()}) {
    TestEngine writer(holder->socket(), kPages, kPage);
    ASSERT_EQ(writer.Set(0, kPages), kPages);
  }
  for (const uint16_t can : {uint16_t{0}, FrameHeader::kChooses}) {
    size_t named = 0, more = 0;
    for (const Node* shard : {a.get(), b.get()}) {
      Channel channel({"127.0.0.1", shard->peer_port()}, Hello{"test", "", 1, 1});
      FrameWriter request;
      request.Start(MessageType::kLookup, 1);
      request.Can(can);
      EncodeLookup(1, {}, TestEngine::Keys(0, kPages), &request);
      channel.Begin(request.Finish(), nullptr, Clock::now());
      Channel* const channels[] = {&channel};
      RunAll(channels, {std::chrono::seconds(15), Clock::now() + std::chrono::seconds(15)});
      ASSERT_TRUE(channel.status().ok()) << channel.status().ToString();
      std::vector<Record> records;
      std::vector<OtherRecord> others;
      FrameReader body = channel.body();
      ASSERT_TRUE(DecodeRecords(&body, &records, &others));
      for (const Record& record : records) named += record.node != 0;
      more += others.size();
    }
    // At both, while what one of them had alone is still in its shard.
    EXPECT_GE(named, kPages);
    if (can == 0) {
      EXPECT_EQ(more, 0u);
    } else {
      EXPECT_GE(more, kPages);
    }
  }
}

}  // namespace
}  // namespace peercache
