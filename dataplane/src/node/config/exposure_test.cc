#include "node/config/exposure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache {
namespace {

using ::testing::HasSubstr;

Result<std::string> BindOf(const NodeConfig& config) {
  std::vector<HostPort> discovery;
  if (!config.discovery_addr.empty()) {
    auto parsed = ParseHostPorts(config.discovery_addr);
    EXPECT_TRUE(parsed.ok());
    discovery = *parsed;
  }
  return PeerBindAddress(config, discovery);
}

TEST(ExposureTest, WithoutASecretANodeListensToItsMachineOnly) {
  NodeConfig config;
  EXPECT_EQ(*BindOf(config), "127.0.0.1");
  config.bind_addr = "0.0.0.0";
  EXPECT_EQ(*BindOf(config), "127.0.0.1");
  for (const char* own : {"::1", "[::1]:31998"}) {
    NodeConfig v6;
    (own[0] == '[' ? v6.discovery_addr : v6.advertise_addr) = own;
    EXPECT_EQ(*BindOf(v6), "::1") << own;
  }
  for (const char* own : {"127.0.0.1", "127.8.0.3", "::1", "localhost"}) {
    config.bind_addr = own;
    EXPECT_EQ(*BindOf(config), own);
  }
}

TEST(ExposureTest, WithASecretItListensWhereItIsTold) {
  NodeConfig config;
  config.discovery_addr = "10.0.0.1:31998";
  NodeConfig token = config, tls = config, insecure = config;
  token.auth_token_file = "/etc/token";
  tls.tls_cert_file = tls.tls_key_file = tls.tls_ca_file = "/etc/tls";
  insecure.insecure_peers = true;
  for (const NodeConfig& safe : {token, tls, insecure}) EXPECT_EQ(*BindOf(safe), "::");
}

struct Reached {
  const char* option;
  std::string NodeConfig::*member;
  const char* value;
  const char* host;
};

TEST(ExposureTest, WithoutASecretNothingMayNameTheNetwork) {
  for (const Reached& at : {
           Reached{"bind-addr", &NodeConfig::bind_addr, "10.0.0.1", "10.0.0.1"},
           Reached{"bind-addr", &NodeConfig::bind_addr, "fd00::1", "fd00::1"},
           Reached{"advertise-addr", &NodeConfig::advertise_addr, "10.0.0.2", "10.0.0.2"},
           Reached{"advertise-addr", &NodeConfig::advertise_addr, "eth0", "eth0"},
           Reached{"discovery-addr", &NodeConfig::discovery_addr, "127.0.0.1:1,10.0.0.1:2",
                   "10.0.0.1"},
           // Who answers to a name may change.
           Reached{"discovery-addr", &NodeConfig::discovery_addr, "kv.svc:31998", "kv.svc"},
           Reached{"bind-addr", &NodeConfig::bind_addr, "::ffff:10.0.0.1", "::ffff:10.0.0.1"},
       }) {
    NodeConfig config;
    config.*at.member = at.value;
    const auto bind = BindOf(config);
    ASSERT_FALSE(bind.ok()) << at.value;
    const std::string error = bind.status().ToString();
    EXPECT_THAT(error, HasSubstr(std::string(at.option) + ": \"" + at.host + "\""));
    for (const char* way : {"openssl rand -hex 32", "auth-token-file", "insecure-peers"})
      EXPECT_THAT(error, HasSubstr(way));
  }
}

}  // namespace
}  // namespace peercache
