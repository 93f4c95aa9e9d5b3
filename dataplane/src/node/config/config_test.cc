#include "node/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

namespace peercache {
namespace {

using ::testing::HasSubstr;

TEST(ConfigTest, DefaultsAreValidAndAgreeWithTheTable) {
  std::map<std::string, std::string> values;
  for (const ConfigOption& option : ConfigOptions()) values[option.name] = option.default_value;
  auto from_table = ParseConfig(values);
  ASSERT_TRUE(from_table.ok()) << from_table.status().ToString();
  auto defaults = ParseConfig({});
  ASSERT_TRUE(defaults.ok());
  EXPECT_EQ(from_table->pool_bytes, defaults->pool_bytes);
  EXPECT_EQ(from_table->peer_port, defaults->peer_port);
  EXPECT_EQ(from_table->http_port, defaults->http_port);
  EXPECT_EQ(from_table->lease, defaults->lease);
  EXPECT_EQ(from_table->socket_mode, defaults->socket_mode);
  EXPECT_EQ(from_table->member_ttl, defaults->member_ttl);
  EXPECT_EQ(from_table->eviction, defaults->eviction);
  EXPECT_EQ(from_table->watermarks.high, defaults->watermarks.high);
  EXPECT_EQ(from_table->watermarks.low, defaults->watermarks.low);
  EXPECT_EQ(from_table->drain_budget, defaults->drain_budget);
}

TEST(ConfigTest, ValuesAreTaken) {
  auto config = ParseConfig({{"pool-size", "64Gi"},
                             {"discovery-addr", "a.b:1,[::1]:2"},
                             {"socket-mode", "0660"},
                             {"eviction", "s3fifo"},
                             {"high-watermark", "90%"},
                             {"drain-budget", "512Mi"},
                             {"lease-ms", "250"}});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->pool_bytes, size_t{64} << 30);
  EXPECT_EQ(config->socket_mode, 0660u);
  EXPECT_EQ(config->lease, milliseconds(250));
  EXPECT_EQ(config->eviction, EvictionPolicy::kS3Fifo);
  EXPECT_EQ(config->watermarks.high, 0.9);
  EXPECT_EQ(config->drain_budget, uint64_t{512} << 20);
}

TEST(ConfigTest, APoolFileKeepsPagesInsteadOfTheDrain) {
  EXPECT_EQ(ParseConfig({{"pool-file", "/dev/shm"}})->drain_budget, 0u);
  EXPECT_EQ(ParseConfig({{"pool-file", "/dev/shm"}, {"drain-budget", "1Gi"}})->drain_budget,
            uint64_t{1} << 30);
  const auto nameless = ParseConfig({{"pool-file", "/dev/shm"}, {"peer-port", "0"}});
  ASSERT_FALSE(nameless.ok());
  EXPECT_NE(nameless.status().message().find("node-id: not set"), std::string::npos);
  EXPECT_TRUE(ParseConfig({{"pool-file", "/dev/shm"}, {"peer-port", "0"}, {"node-id", "a"}}).ok());
}

TEST(ConfigTest, SocketsOfTenantsAreCalledAsTheNodesOwn) {
  const std::string dir = "/run/tenants";
  EXPECT_EQ(ParseConfig({})->tenant_socket_name(), "default.sock");
  EXPECT_EQ(ParseConfig({{"socket", "/x/kv.sock"}})->tenant_socket_name(), "kv.sock");
  EXPECT_EQ(ParseConfig({{"socket", "none"}, {"tenants-dir", dir}, {"group", "rail1"}})
                ->tenant_socket_name(),
            "rail1.sock");
}

TEST(ConfigTest, AQueueOutlastsALostPacketWhateverPeerTimeoutIs) {
  for (const char* peer_timeout : {"50", "51", "300", "503", "504", "1000", "2013", "60000"}) {
    const auto config = ParseConfig({{"peer-timeout-ms", peer_timeout}});
    ASSERT_TRUE(config.ok()) << peer_timeout << ": " << config.status().ToString();
    EXPECT_GE(config->rdma_queue_stall(), 4 * rdma::AckTimeout(config->rdma_link.timeout))
        << peer_timeout;
    EXPECT_LE(config->rdma_link.timeout, 12);
  }
  EXPECT_EQ(ParseConfig({})->rdma_link.timeout, 12);
  EXPECT_EQ(ParseConfig({{"peer-timeout-ms", "503"}})->rdma_link.timeout, 11);
  EXPECT_TRUE(ParseConfig({{"rdma-timeout", "14"}, {"peer-timeout-ms", "2014"}}).ok());
  EXPECT_TRUE(ParseConfig({{"rdma-timeout", "31"}, {"transport", "tcp"}}).ok());
}

struct BadCase {
  std::map<std::string, std::string> values;
  const char* name;
  const char* text;
};

void PrintTo(const BadCase& c, std::ostream* out) { *out << c.name << " \"" << c.text << '"'; }

class BadConfigTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadConfigTest, IsRefusedWithNameAndValue) {
  auto config = ParseConfig(GetParam().values);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(config.status().message(), HasSubstr(GetParam().name));
  EXPECT_THAT(config.status().message(), HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadConfigTest,
    ::testing::Values(
        BadCase{{{"pool-sise", "4Gi"}}, "pool-sise", "pool-size"},
        BadCase{{{"pool-size", "4 bananas"}}, "pool-size", "bananas"},
        BadCase{{{"pool-size", "1Mi"}}, "pool-size", "8Mi"},
        BadCase{{{"disk-path", "nvme0"}}, "disk-path", "not an absolute path"},
        BadCase{{{"disk-path", "/a,"}}, "disk-path", "\"\" in \"/a,\""},
        BadCase{{{"disk-path", "/a,/a/"}}, "disk-path", "\"/a\" is named twice"},
        BadCase{{{"disk-path", "/a"}}, "disk-size", "not set, while disk-path is /a"},
        BadCase{{{"disk-size", "1Ti"}}, "disk-size", "without disk-path"},
        BadCase{{{"disk-path", "/a"}, {"disk-size", "1Mi"}}, "disk-size", "too small"},
        BadCase{{{"disk-write-budget", "-1"}}, "disk-write-budget", "-1"},
        BadCase{{{"disk-io", "mmap"}}, "disk-io", "mmap"},
        BadCase{{{"peer-port", "70000"}}, "peer-port", "70000"},
        BadCase{{{"peer-port", "31998x"}}, "peer-port", "31998x"},
        BadCase{{{"peer-port", ""}}, "peer-port", "\"\""},
        BadCase{{{"discovery-addr", "host"}}, "discovery-addr", "host:port"},
        BadCase{{{"discovery-addr", "a:1,,b:2"}}, "discovery-addr", "host:port"},
        BadCase{{{"transport", "carrier-pigeon"}}, "transport", "carrier-pigeon"},
        BadCase{{{"huge-pages", "3Mi"}}, "huge-pages", "3Mi"},
        BadCase{{{"eviction", "random"}}, "eviction", "random"},
        BadCase{{{"high-watermark", "100%"}}, "high-watermark", "100%"},
        BadCase{{{"low-watermark", "50"}}, "low-watermark", "50"},
        BadCase{{{"low-watermark", "%"}}, "low-watermark", "10% to 99%"},
        BadCase{{{"low-watermark", "95%"}}, "low-watermark", "below"},
        BadCase{{{"socket-mode", "999"}}, "socket-mode", "999"},
        BadCase{{{"socket-uids", "root"}}, "socket-uids", "root"},
        BadCase{{{"max-engine-memory", "lots"}}, "max-engine-memory", "lots"},
        BadCase{{{"max-tenant-memory", "lots"}}, "max-tenant-memory", "lots"},
        BadCase{{{"tenant", "Team A"}}, "tenant", "Team A"},
        BadCase{{{"tenant", std::string(64, 'a')}}, "tenant", "1 to 63"},
        BadCase{{{"socket", "none"}}, "socket", "tenants-dir"},
        BadCase{{{"socket", "/run/peercache/"}}, "socket", "names no file"},
        BadCase{{{"engine-concurrency", "0"}}, "engine-concurrency", "0"},
        BadCase{{{"lease-ms", "-5"}}, "lease-ms", "-5"},
        BadCase{{{"member-ttl-ms", "600"}, {"heartbeat-ms", "500"}}, "member-ttl-ms", "1500"},
        BadCase{{{"heartbeat-ms", "7370"}}, "heartbeat-ms", "22110"},
        BadCase{{{"rdma-timeout", "14"}}, "rdma-timeout: 14 is 67.1 ms", "at most 12"},
        BadCase{{{"rdma-timeout", "14"}}, "peer-timeout-ms 1000 a READ", "133 ms without progress"},
        BadCase{{{"rdma-timeout", "14"}}, "rdma-timeout", "peer-timeout-ms of at least 2014"},
        BadCase{{{"rdma-timeout", "31"}, {"transport", "rdma"}}, "rdma-timeout", "at most 12"},
        BadCase{{{"rdma-timeout", "12"}, {"peer-timeout-ms", "500"}}, "rdma-timeout", "at most 11"},
        BadCase{{{"rdma-queues", "5"}}, "rdma-queues", "5"},
        BadCase{{{"rdma-relaxed-ordering", "yes"}}, "rdma-relaxed-ordering", "none of on, off"},
        BadCase{{{"node-id", "a b"}}, "node-id", "a b"},
        BadCase{{{"auth-token-file", "/does/not/exist"}}, "auth-token-file", "/does/not/exist"},
        BadCase{{{"tls-cert-file", "/dev/null"}, {"tls-ca-file", "/dev/null"}},
                "tls-key-file: missing",
                "tls-cert-file is set"},
        BadCase{{{"tls-key-file", "/dev/null"}}, "tls-cert-file: missing", "tls-key-file is set"},
        BadCase{{{"tls-cert-file", "/dev/null"},
                 {"tls-key-file", "/dev/null"},
                 {"tls-ca-file", "/does/not/exist"}},
                "tls-ca-file",
                "/does/not/exist"},
        BadCase{{{"tls-peer-name", "kv.example"}}, "tls-peer-name", "tls-cert-file"},
        BadCase{{{"tls-peer-name", "kv example"}}, "tls-peer-name", "kv example"},
        BadCase{{{"log-level", "loud"}}, "log-level", "loud"}));

}  // namespace
}  // namespace peercache
