// Whole nodes that speak TLS: pages travel, outsiders stay outside, certificates are replaced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "node/integration/node_testing.h"
#include "transport/tcp/tls_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using namespace peercache::testing;
using ::testing::HasSubstr;

constexpr size_t kPage = 64 << 10;
constexpr size_t kPages = 40;

class TlsNodesTest : public ::testing::Test {
 protected:
  // Of the next node that is started.
  void Use(const TlsFiles& files) { files_ = files; }
  void UseMember(const std::string& name) {
    Use(WriteTls(dir_, name, ca_.Issue({.until = 1h}), ca_.pem()));
  }

  TempDir dir_;
  TestCa ca_;
  TlsFiles files_;
  std::string token_file_;
  TestCluster cluster_{[this](NodeConfig* c) {
    c->tls_cert_file = files_.cert;
    c->tls_key_file = files_.key;
    c->tls_ca_file = files_.ca;
    c->auth_token_file = token_file_;
    c->promotion_percent = 0;  // every read goes to the holder
    // Reads are to arrive in time also where sanitizers and other work slow encryption down.
    c->lease = milliseconds(10'000);
    c->peer_timeout = milliseconds(10'000);
  }};
};

TEST_F(TlsNodesTest, PagesTravelEncrypted) {
  UseMember("a");
  auto a = cluster_.Start("a");
  UseMember("b");
  auto b = cluster_.Start("b");
  TestEngine on_a(a->socket(), kPages, kPage), on_b(b->socket(), kPages, kPage);
  ASSERT_EQ(on_a.Set(0, kPages), kPages);
  EXPECT_EQ(on_b.Exists(0, kPages), kPages);
  const auto got = on_b.Get(0, kPages);
  EXPECT_EQ(got.hits, kPages);
  EXPECT_EQ(got.wrong, 0u);
  const auto tls = nlohmann::json::parse(b->StatusJson())["tls"];
  EXPECT_EQ(tls["enabled"], true);
  EXPECT_NEAR(tls["certificate_expires_in_seconds"].get<double>(), 3600, 120);
  EXPECT_THAT(tls["certificate_expires"].get<std::string>(), ::testing::EndsWith("Z"));
}

TEST_F(TlsNodesTest, OutsidersDoNotJoinAndDisturbNobody) {
  UseMember("a");
  auto a = cluster_.Start("a");
  UseMember("b");
  auto b = cluster_.Start("b");
  const TestCa other("other CA");
  std::vector<std::unique_ptr<Node>> outsiders;
  Use(WriteTls(dir_, "foreign", other.Issue({}), ca_.pem() + other.pem()));
  outsiders.push_back(cluster_.Start("foreign", false));
  Use(WriteTls(dir_, "expired", ca_.Issue({.from = -2h, .until = -1h}), ca_.pem()));
  outsiders.push_back(cluster_.Start("expired", false));
  Use({});
  outsiders.push_back(cluster_.Start("plain", false));

  TestEngine on_a(a->socket(), kPages, kPage), on_b(b->socket(), kPages, kPage);
  ASSERT_EQ(on_a.Set(0, kPages), kPages);
  const TimePoint end = Clock::now() + 1s;
  while (Clock::now() < end) {
    const TimePoint start = Clock::now();
    const auto got = on_b.Get(0, kPages);
    EXPECT_EQ(got.hits, kPages);
    EXPECT_EQ(got.wrong, 0u);
    EXPECT_LT(Clock::now() - start, 8s) << "it waited for an outsider";
  }
  for (const auto& node : outsiders) EXPECT_FALSE(node->ready());
  EXPECT_EQ(nlohmann::json::parse(a->StatusJson())["members"].size(), 2u);
}

TEST_F(TlsNodesTest, TheTokenIsCheckedInsideOfTls) {
  token_file_ = dir_.Write("token", "the right token of all\n");
  UseMember("a");
  auto a = cluster_.Start("a");
  UseMember("b");
  auto b = cluster_.Start("b");
  EXPECT_TRUE(b->ready());
  token_file_ = dir_.Write("other", "a token that is wrong\n");
  UseMember("c");
  auto c = cluster_.Start("c", false);
  std::this_thread::sleep_for(500ms);
  EXPECT_FALSE(c->ready());
}

TEST_F(TlsNodesTest, FilesThatAreNoGoodAreAnErrorBeforeAnythingIsBound) {
  UseMember("a");
  dir_.Write("a.key", ca_.Issue({}).key);
  const NodeConfig config = cluster_.Config("a");
  const auto node = Node::Start(config);
  ASSERT_FALSE(node.ok());
  EXPECT_THAT(node.status().message(), HasSubstr("tls-key-file"));
  EXPECT_NE(access(config.socket.c_str(), F_OK), 0);
}

// All nodes change from one CA to the next while an engine reads another node's pages, and none
// fails. The nodes look once a second.
TEST_F(TlsNodesTest, CertificatesAndCasAreReplacedWhilePagesFlow) {
  const TestCa next("next CA");
  UseMember("a");
  auto a = cluster_.Start("a");
  UseMember("b");
  auto b = cluster_.Start("b");
  TestEngine on_a(a->socket(), kPages, kPage);
  ASSERT_EQ(on_a.Set(0, kPages), kPages);
  std::atomic<bool> stop{false};
  std::atomic<size_t> reads{0};
  std::thread reader([&] {
    TestEngine on_b(b->socket(), kPages, kPage);
    while (!stop) {
      const auto got = on_b.Get(0, kPages);
      ASSERT_EQ(got.hits, kPages);
      ASSERT_EQ(got.wrong, 0u);
      ++reads;
    }
  });
  const auto reloads = [&](const std::unique_ptr<Node>& node) {
    return nlohmann::json::parse(node->StatusJson())["tls"]["reloads"].get<uint64_t>();
  };
  uint64_t expected = 0;
  const auto everywhere = [&](const std::function<void(const std::string&)>& write) {
    write("a");
    write("b");
    ++expected;
    EXPECT_TRUE(Eventually(20s, [&] { return reloads(a) == expected && reloads(b) == expected; }));
    const size_t before = reads;
    EXPECT_TRUE(Eventually(20s, [&] { return reads > before + 3; }));
  };
  everywhere([&](const std::string& name) { dir_.Write(name + ".ca", ca_.pem() + next.pem()); });
  everywhere([&](const std::string& name) {
    const TestCertificate made = next.Issue({});
    dir_.Write(name + ".crt", made.cert);
    dir_.Write(name + ".key", made.key);
  });
  everywhere([&](const std::string& name) { dir_.Write(name + ".ca", next.pem()); });
  stop = true;
  reader.join();
  // One that comes now knows nothing of the former CA; the members connect to it anew.
  Use(WriteTls(dir_, "c", next.Issue({}), next.pem()));
  auto c = cluster_.Start("c");
  ASSERT_TRUE(c != nullptr && c->ready());
  TestEngine on_c(c->socket(), kPages, kPage);
  EXPECT_EQ(on_c.Get(0, kPages).hits, kPages);
}

}  // namespace
}  // namespace peercache
