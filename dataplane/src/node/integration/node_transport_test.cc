// What a node says of how its pages travel, and what it refuses to start with.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using testing::TestCluster;

TEST(NodeTransportTest, WithoutItsDeviceANodeUsesTcpAndSaysWhyOrDoesNotStart) {
  TestCluster cluster([](NodeConfig* c) { c->device_name = "absent0"; });
  auto a = cluster.Start("a");
  ASSERT_TRUE(a);
  const auto transport = nlohmann::json::parse(a->StatusJson())["transport"];
  EXPECT_EQ(transport["kind"], "tcp");
  EXPECT_NE(transport["reason"].get<std::string>().find("TCP, as RDMA cannot be used"),
            std::string::npos);
  NodeConfig strict = cluster.Config("strict");
  strict.transport = "rdma";
  const auto refused = Node::Start(strict);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("transport"), std::string::npos)
      << refused.status().ToString();
}

TEST(NodeTransportTest, ShowsTheCongestionControlOfItsPagesAndRefusesAnUnknownOne) {
  TestCluster cluster;
  NodeConfig config = cluster.Config("reno");
  config.tcp_congestion = "reno";
  auto node = Node::Start(config);
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  EXPECT_EQ(nlohmann::json::parse((*node)->StatusJson())["transport"]["tcp_congestion"], "reno");
  config = cluster.Config("pigeon");
  config.tcp_congestion = "carrier-pigeon";
  const auto refused = Node::Start(config);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("tcp-congestion: \"carrier-pigeon\""),
            std::string::npos)
      << refused.status().ToString();
}

}  // namespace
}  // namespace peercache
