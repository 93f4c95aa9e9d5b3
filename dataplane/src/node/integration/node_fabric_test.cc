// Whole nodes that read each other's pools by RDMA.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "node/integration/node_fabric_testing.h"
#include "transport/rdma/fabric_testing.h"

namespace peercache {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::CounterOf;
using testing::Eventually;
using testing::OfRails;
using testing::RailBytes;
using testing::Status;
using testing::TestCluster;
using testing::TestEngine;
using testing::UseRails;

constexpr size_t kPage = 128 << 10;

// An engine whose pool is registered: until then reads go over TCP.
bool ReadsByRdma(TestEngine* reader, Node* node, uint64_t first, size_t count) {
  return Eventually([&] {
    const uint64_t before = RailBytes(*node);
    return reader->Get(first, count).hits == count && RailBytes(*node) > before;
  });
}

TEST(NodeFabricTest, PagesCrossWithoutTheHoldersHelp) {
  TestCluster cluster([](NodeConfig* c) {
    UseRails(c);
    c->pool_bytes = size_t{64} << 20;
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  ASSERT_TRUE(a && b);
  TestEngine writer(a->socket(), 64, kPage), reader(b->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  ASSERT_TRUE(ReadsByRdma(&reader, b.get(), 0, 64));
  const uint64_t served = CounterOf(*a, "served_pages"), read = RailBytes(*b),
                 reads = OfRails(*b, "reads");
  for (uint64_t round = 1; round <= 3; ++round) {
    ASSERT_EQ(writer.Set(1000 * round, 64), 64u);
    const auto got = reader.Get(1000 * round, 64);
    EXPECT_EQ(got.hits, 64u) << "set is visible at once";
    EXPECT_EQ(got.wrong, 0u);
  }
  EXPECT_EQ(CounterOf(*a, "served_pages"), served) << "some went over TCP";
  EXPECT_EQ(RailBytes(*b) - read, 3u * 64 * (kPage + 128)) << "a page, once, and its header twice";
  // The same over soft-RoCE and over the fake device: so that is what the model counts, too.
  EXPECT_EQ(OfRails(*b, "reads") - reads, 3u * 64 * 2) << "a page and its header, then the header";
  EXPECT_EQ(Status(*b)["transport"]["kind"], "rdma");
}

TEST(NodeFabricTest, SmallMemoryIsRegisteredBeforeItsFirstCall) {
  TestCluster cluster(UseRails);
  auto node = cluster.Start("a");
  ASSERT_TRUE(node);
  for (int i = 0; i < 20; ++i) {
    TestEngine engine(node->socket(), 64, kPage);
    const json engines = Status(*node)["engines"];
    for (const json& known : engines) {
      EXPECT_GT(known["region_bytes"], 0u);
      EXPECT_EQ(known["registered_bytes"], known["region_bytes"]) << "engine " << i;
    }
  }
}

TEST(NodeFabricTest, WithoutOnDemandPagingMemoryIsLocked) {
  TestCluster cluster([](NodeConfig* c) {
    UseRails(c);
    c->rdma_link.on_demand_paging = true;
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  ASSERT_TRUE(a && b);
  const json rails = Status(*a)["transport"]["rails"];
  for (const json& rail : rails) {
    EXPECT_EQ(rail["memory"], "locked: it has no on-demand paging (general_caps 0x0)");
    EXPECT_EQ(rail["ordering"], "relaxed");
  }
  EXPECT_EQ(rails.size(), 2u);
  TestEngine writer(a->socket(), 16, kPage), reader(b->socket(), 16, kPage);
  ASSERT_EQ(writer.Set(0, 16), 16u);
  EXPECT_TRUE(ReadsByRdma(&reader, b.get(), 0, 16));
  EXPECT_EQ(reader.Get(0, 16).wrong, 0u);
}

TEST(NodeFabricTest, ANodeWithoutRailsIsReadOverTcp) {
  TestCluster with(UseRails);
  auto a = with.Start("a");
  NodeConfig config = with.Config("plain");
  config.transport = "tcp";
  auto plain = Node::Start(config);
  ASSERT_TRUE(a && plain.ok());
  ASSERT_TRUE(Eventually(seconds(20), [&] { return (*plain)->ready(); }));
  TestEngine writer((*plain)->socket(), 16, kPage), reader(a->socket(), 16, kPage);
  ASSERT_EQ(writer.Set(0, 16), 16u);
  EXPECT_EQ(reader.Get(0, 16).hits, 16u);
  ASSERT_EQ(reader.Set(100, 16), 16u);
  const auto got = writer.Get(100, 16);
  EXPECT_EQ(got.hits, 16u);
  EXPECT_EQ(got.wrong, 0u);
  EXPECT_EQ(RailBytes(*a), 0u);
}

TEST(NodeFabricTest, AHolderThatStartsAgainIsReadAgain) {
  TestCluster cluster(UseRails);
  auto host = cluster.Start("host"), reader_node = cluster.Start("reader");
  TestEngine reader(reader_node->socket(), 32, kPage);
  for (uint64_t life = 1; life <= 2; ++life) {
    auto holder = cluster.Start("holder");
    ASSERT_TRUE(holder);
    TestEngine writer(holder->socket(), 32, kPage);
    ASSERT_EQ(writer.Set(life * 100, 32), 32u);
    EXPECT_TRUE(ReadsByRdma(&reader, reader_node.get(), life * 100, 32));
    EXPECT_EQ(reader.Get(life * 100, 32).wrong, 0u);
  }
}

TEST(NodeFabricTest, AHolderThatDiesCostsABoundedWaitAndNoWrongByte) {
  TestCluster cluster([](NodeConfig* c) {
    UseRails(c);
    c->peer_timeout = seconds(1);
  });
  auto host = cluster.Start("host"), b = cluster.Start("b");
  auto a = cluster.Start("a");
  TestEngine reader(b->socket(), 64, kPage);
  {
    TestEngine writer(a->socket(), 64, kPage);
    // A slow machine may need more than that time for all of them.
    ASSERT_TRUE(Eventually([&] { return writer.Set(0, 64) == 64; }));
  }
  ASSERT_TRUE(ReadsByRdma(&reader, b.get(), 0, 64));
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(300));
    a.reset();
  });
  Duration longest{};
  size_t wrong = 0, last_hits = 64;
  const TimePoint began = Clock::now();
  const auto running = [&] {
    const Duration ran = Clock::now() - began;
    return ran < milliseconds(2500) || (last_hits > 0 && ran < testing::kEndsAHang);
  };
  while (running()) {
    const TimePoint start = Clock::now();
    const auto got = reader.Get(0, 64);
    longest = std::max(longest, Clock::now() - start);
    wrong += got.wrong;
    last_hits = got.hits;
  }
  killer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(last_hits, 0u) << "its pages have gone with it";
  EXPECT_LT(longest, seconds(10)) << "the engine itself gives up after 15 s";
}

TEST(NodeFabricTest, RailsThatAreAllDownAtTheStartAreTakenIntoUseWhenTheyComeUp) {
  const auto rails = rdma::FindTestRails();
  const auto set_rails = [&](const char* state) {
    for (const rdma::RailSpec& rail : rails) {
      const std::string command = fmt::format("ip link set {} {}", rdma::InterfaceOf(rail), state);
      ASSERT_EQ(std::system(command.c_str()), 0) << command;
    }
  };
  set_rails("down");
  TestCluster cluster(UseRails);
  const auto refused = Node::Start(cluster.Config("strict"));
  EXPECT_FALSE(refused.ok()) << "transport rdma, and there is none";
  EXPECT_NE(refused.status().message().find("the port is DOWN"), std::string::npos)
      << refused.status().ToString();
  TestCluster patient([](NodeConfig* c) {
    UseRails(c);
    c->transport = "auto";
  });
  auto a = patient.Start("a"), b = patient.Start("b");
  ASSERT_TRUE(a && b);
  const json waiting = Status(*b)["transport"]["rails"];
  for (const json& rail : waiting) {
    EXPECT_EQ(rail["up"], false);
    EXPECT_EQ(rail["waits_for"], "port");
    EXPECT_NE(rail["why"].get<std::string>().find("check the cable"), std::string::npos);
  }
  TestEngine writer(a->socket(), 32, kPage), reader(b->socket(), 32, kPage);
  ASSERT_EQ(writer.Set(0, 32), 32u);
  EXPECT_EQ(reader.Get(0, 32).hits, 32u) << "over TCP";
  EXPECT_EQ(RailBytes(*b), 0u);
  set_rails("up");
  EXPECT_TRUE(ReadsByRdma(&reader, b.get(), 0, 32));
  EXPECT_EQ(reader.Get(0, 32).wrong, 0u);
  EXPECT_EQ(Status(*b)["transport"]["rails"][0]["waits_for"], "");
}

TEST(NodeFabricTest, DevicesThatAreAllTakenAwayCostNoHitAndAreUsedAgain) {
  const auto rails = rdma::FindTestRails();
  std::vector<std::string> bring_back;
  for (const rdma::RailSpec& rail : rails)
    bring_back.push_back(
        fmt::format("rdma link add {} type rxe netdev {}", rail.device, rdma::InterfaceOf(rail)));
  TestCluster cluster(UseRails);
  auto a = cluster.Start("a"), b = cluster.Start("b");
  TestEngine writer(a->socket(), 64, kPage), reader(b->socket(), 64, kPage);
  ASSERT_EQ(writer.Set(0, 64), 64u);
  ASSERT_TRUE(ReadsByRdma(&reader, b.get(), 0, 64));
  for (const rdma::RailSpec& rail : rails)
    ASSERT_EQ(std::system(("rdma link delete " + rail.device).c_str()), 0);
  const auto read = [&](TestEngine* engine) {
    const auto got = engine->Get(0, 64);
    EXPECT_EQ(got.hits, 64u);
    EXPECT_EQ(got.wrong, 0u);
  };
  read(&reader);
  for (const auto& node : {a.get(), b.get()}) {
    EXPECT_TRUE(Eventually(seconds(15), [&] {
      const json status = Status(*node)["transport"]["rails"];
      return std::all_of(status.begin(), status.end(),
                         [](const json& rail) { return rail["waits_for"] == "device"; });
    }));
  }
  const uint64_t by_rdma = RailBytes(*b);
  read(&reader);
  // One that comes meanwhile is served, too.
  TestEngine late(b->socket(), 64, kPage);
  read(&late);
  EXPECT_EQ(RailBytes(*b), by_rdma);
  const json without = Status(*b)["engines"];
  for (const json& engine : without) EXPECT_EQ(engine["registered_bytes"], 0u);
  for (const std::string& command : bring_back) ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(ReadsByRdma(&reader, b.get(), 0, 64));
  EXPECT_TRUE(ReadsByRdma(&late, b.get(), 0, 64));
  read(&reader);
  read(&late);
  const json with = Status(*b)["engines"];
  for (const json& engine : with) EXPECT_EQ(engine["registered_bytes"], engine["region_bytes"]);
}

}  // namespace
}  // namespace peercache
