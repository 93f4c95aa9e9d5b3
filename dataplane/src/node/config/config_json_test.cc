#include "node/config/config_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using nlohmann::json;
using Values = std::map<std::string, std::string>;

// None of them is the default.
Values Unusual() {
  return {{"node-id", "n1.rail"},
          {"cluster", "kv"},
          {"group", "rail"},
          {"discovery-addr", "a.b:1,[::1]:2"},
          {"bind-addr", "127.0.0.1"},
          {"advertise-addr", "rail0"},
          {"peer-port", "4000"},
          {"http-port", "4001"},
          {"http", "off"},
          {"socket", "/run/x.sock"},
          {"socket-mode", "0660"},
          {"socket-uids", "1000,2000"},
          {"tenants-dir", "/run/tenants"},
          {"tenant", "team-a"},
          {"tenant-secret-file", "/etc/tenant-secret"},
          {"pool-size", "1537Mi"},
          {"huge-pages", "2Mi"},
          {"pool-file", "/dev/shm/peercache"},
          {"pool-file-view", "/run/peercache-view"},
          {"disk-path", "/nvme0/peercache,/nvme1/peercache"},
          {"disk-size", "500Gi"},
          {"disk-write-budget", "0.3"},
          {"disk-io", "aio"},
          {"eviction", "s3fifo"},
          {"prefault", "off"},
          {"numa-node", "1"},
          {"promotion-percent", "7"},
          {"checksums", "all"},
          {"high-watermark", "58%"},
          {"low-watermark", "29%"},
          {"drain-budget", "0"},
          {"transport", "tcp"},
          {"tcp-congestion", "bbr"},
          {"map-pools", "off"},
          {"tenant-metrics", "on"},
          {"core-files", "on"},
          {"bypass-file", "/b"},
          {"device-name", "mlx5_0,mlx5_1:2"},
          {"rdma-gid", "ipv6"},
          {"rdma-traffic-class", "104"},
          {"rdma-service-level", "3"},
          {"rdma-timeout", "15"},
          {"rdma-retries", "6"},
          {"rdma-pkey-index", "2"},
          {"rdma-mtu", "4096"},
          {"rdma-odp", "on"},
          {"rdma-relaxed-ordering", "off"},
          {"rdma-ece", "on"},
          {"rdma-spin-us", "51"},
          {"rdma-queues", "3"},
          {"rdma-max-queues", "99"},
          {"directory-lookups", "one-sided"},
          {"lease-ms", "1001"},
          {"dir-cache-ttl-ms", "1002"},
          {"peer-timeout-ms", "1003"},
          {"heartbeat-ms", "504"},
          {"member-ttl-ms", "3005"},
          {"vnodes", "161"},
          {"max-engines", "65"},
          {"engine-concurrency", "17"},
          {"max-engine-memory", "5Gi"},
          {"max-tenant-memory", "7Gi"},
          {"max-directory-records", "2048"},
          {"io-threads", "3"},
          {"copy-threads", "4"},
          {"auth-token-file", "/dev/null"},
          {"auth-spread-ms", "60001"},
          {"insecure-peers", "on"},
          {"tls-cert-file", "/dev/null"},
          {"tls-key-file", "/dev/zero"},
          {"tls-ca-file", "/dev/full"},
          {"tls-peer-name", "kv.example"},
          {"log-level", "debug"}};
}

Values Shown(const NodeConfig& config) {
  Values shown;
  const json document = ConfigJson(config);
  for (const auto& [name, value] : document.items())
    shown[name] = value.is_string() ? value.get<std::string>() : value.dump();
  return shown;
}

TEST(ConfigJsonTest, ShowsEveryOptionAsItWasGiven) {
  const auto defaults = ParseConfig({});
  const auto config = ParseConfig(Unusual());
  ASSERT_TRUE(defaults.ok() && config.ok()) << config.status().ToString();
  const Values shown = Shown(*config), usual = Shown(*defaults);
  EXPECT_EQ(shown.size(), ConfigOptions().size());
  for (const ConfigOption& option : ConfigOptions()) {
    ASSERT_TRUE(shown.contains(option.name)) << option.name << " is not shown";
    ASSERT_TRUE(Unusual().contains(option.name)) << option.name << " is not tried";
    EXPECT_EQ(shown.at(option.name), Unusual().at(option.name)) << option.name;
    EXPECT_EQ(usual.at(option.name), option.default_value) << option.name;
    EXPECT_NE(usual.at(option.name), shown.at(option.name)) << option.name;
  }
}

TEST(ConfigJsonTest, SocketMayBeNone) {
  for (const char* none : {"none", ""}) {
    const auto config = ParseConfig({{"socket", none}, {"tenants-dir", "/run/tenants"}});
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    EXPECT_EQ(ConfigJson(*config)["socket"], "none");
  }
}

TEST(ConfigJsonTest, NumaNodeMayBeOff) {
  EXPECT_EQ(ConfigJson(*ParseConfig({{"numa-node", "off"}}))["numa-node"], "off");
}

TEST(ConfigJsonTest, IsInTheStatusOfANode) {
  testing::TestCluster cluster([](NodeConfig* config) { config->vnodes = 77; });
  const auto node = cluster.Start("n1");
  ASSERT_NE(node, nullptr);
  const json config = json::parse(node->StatusJson())["config"];
  EXPECT_EQ(config["vnodes"], 77);
  EXPECT_EQ(config["node-id"], "n1");
}

}  // namespace
}  // namespace peercache
