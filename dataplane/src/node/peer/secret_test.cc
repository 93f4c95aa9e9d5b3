#include "node/peer/secret.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "node/integration/node_testing.h"
#include "transport/tcp/channel.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const TimePoint kStart = TimePoint(1000s);
constexpr Duration kSpread = 60s;

constexpr char kOld[] = "the old token of all", kNew[] = "the new token of all";

std::unique_ptr<Secret> Of(const std::string& contents) {
  auto secret = Secret::Of(contents, "test", kSpread);
  EXPECT_TRUE(secret.ok()) << secret.status().ToString();
  return std::move(*secret);
}

uint64_t IdOf(const std::string& token) { return DeriveKey("test", token)->id; }
bool Accepts(const Secret& secret, const std::string& token, TimePoint now) {
  const auto key = secret.Find(IdOf(token), now);
  return key && key->id == IdOf(token);
}
uint64_t Proven(const Secret& secret, TimePoint now) { return secret.ToProve(now)->id; }

TEST(SecretTest, TheFirstLineIsProvenAllAreAccepted) {
  auto secret = Of(std::string(kOld) + "\r\n\n" + kNew + "\n");
  EXPECT_FALSE(secret->none());
  EXPECT_EQ(Proven(*secret, kStart), IdOf(kOld));
  EXPECT_TRUE(Accepts(*secret, kOld, kStart));
  EXPECT_TRUE(Accepts(*secret, kNew, kStart));
  for (const std::string& wrong :
       {std::string(), std::string(kOld) + kOld, kOld + std::string(1, '\r')})
    EXPECT_FALSE(Accepts(*secret, wrong, kStart)) << wrong;
  EXPECT_FALSE(secret->Find(0, kStart));
  auto elsewhere = Secret::Of(kOld, "another cluster", kSpread);
  ASSERT_TRUE(elsewhere.ok());
  EXPECT_NE((*elsewhere)->ToProve(kStart)->id, IdOf(kOld));
}

TEST(SecretTest, NoFileMeansNothingToProve) {
  auto none = Secret::Load("", "test", kSpread);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE((*none)->none());
  EXPECT_FALSE((*none)->ToProve(kStart));
  EXPECT_FALSE((*none)->Find(IdOf(kOld), kStart));
}

TEST(SecretTest, WhatIsNoTokenIsRefused) {
  std::string nine;
  for (int i = 0; i < 9; ++i) nine += fmt::format("a token with number {}\n", i);
  const std::pair<std::string, const char*> cases[] = {{"", "no token"},
                                                       {"\n\r\n", "no token"},
                                                       {"hunter2", "openssl rand -hex 32"},
                                                       {"0123456789abcdef", "64 bits"},
                                                       {"AAECAwQFBgcICQoLDA0OD", "126 bits"},
                                                       {"fifteen bytes !", "15 bytes"},
                                                       {std::string(4097, 'x'), "4097 bytes"},
                                                       {nine, "9 tokens"}};
  auto secret = Of(kOld);
  for (const auto& [contents, text] : cases) {
    EXPECT_THAT(Secret::Of(contents, "test", kSpread).status().message(), HasSubstr(text));
    EXPECT_THAT(secret->Replace(contents, kStart).message(), HasSubstr(text));
    EXPECT_TRUE(Accepts(*secret, kOld, kStart + 1h)) << "the former token stays in force";
  }
}

TEST(SecretTest, TheOldTokenFadesAwayInTwoSteps) {
  auto secret = Of(kOld);
  ASSERT_TRUE(secret->Replace(kNew, kStart).ok());
  EXPECT_TRUE(Accepts(*secret, kNew, kStart));
  EXPECT_EQ(Proven(*secret, kStart + kSpread - 1ms), IdOf(kOld));
  EXPECT_EQ(Proven(*secret, kStart + kSpread), IdOf(kNew));
  EXPECT_TRUE(Accepts(*secret, kOld, kStart + 2 * kSpread - 1ms));
  EXPECT_FALSE(Accepts(*secret, kOld, kStart + 2 * kSpread));
  EXPECT_TRUE(Accepts(*secret, kNew, kStart + 24h));
}

// Two nodes that see changes at any times within the spread, in either order, understand each other
// at every moment, also when a second change follows before the first is through.
TEST(SecretTest, NodesUnderstandEachOtherWhileTheyRotate) {
  constexpr char kThird[] = "the third token of all";
  for (const Duration skew : {0s, 1s, 30s, 59s, 60s}) {
    for (const Duration pause : {1s, 20s, 61s, 119s, 500s}) {
      auto a = Of(kOld);
      auto b = Of(kOld);
      struct Event {
        TimePoint at;
        Secret* node;
        const char* token;
      };
      std::vector<Event> events = {{kStart, a.get(), kNew},
                                   {kStart + pause, a.get(), kThird},
                                   {kStart + skew, b.get(), kNew},
                                   {kStart + pause + skew, b.get(), kThird}};
      std::stable_sort(events.begin(), events.end(),
                       [](const Event& x, const Event& y) { return x.at < y.at; });
      auto next = events.begin();
      for (TimePoint now = kStart - 2s; now < kStart + pause + 300s; now += 500ms) {
        for (; next != events.end() && next->at <= now; ++next) {
          ASSERT_TRUE(next->node->Replace(next->token, next->at).ok());
        }
        ASSERT_TRUE(b->Find(Proven(*a, now), now)) << ToMillis(now - kStart) << " ms a to b";
        ASSERT_TRUE(a->Find(Proven(*b, now), now)) << ToMillis(now - kStart) << " ms b to a";
      }
      EXPECT_EQ(Proven(*a, kStart + pause + 300s), IdOf(kThird));
      EXPECT_FALSE(Accepts(*b, kOld, kStart + pause + 300s));
      EXPECT_FALSE(Accepts(*b, kNew, kStart + pause + 300s));
    }
  }
}

// ---- nodes -----------------------------------------------------------------------------------

using testing::Eventually;
using testing::TempDir;
using testing::TestCluster;

void Write(const std::string& path, const std::string& token) {
  std::ofstream(path, std::ios::trunc) << token << "\n";
}

// Whether the node takes a new connection with this token.
bool Admits(const Node& node, const std::string& token) {
  const std::string to = fmt::format("127.0.0.1:{}", node.peer_port());
  Channel channel({"127.0.0.1", node.peer_port()}, Hello{"test", to, 1, 1}, nullptr,
                  Channel::Proving{*DeriveKey("test", token)});
  FrameWriter request;
  request.Start(MessageType::kLookup, 1);
  EncodeLookup(1, {}, {}, &request);
  channel.Begin(request.Finish(), nullptr, Clock::now());
  Channel* const channels[] = {&channel};
  RunAll(channels, {5s, Clock::now() + 5s});
  EXPECT_TRUE(channel.status().ok() || channel.status().code() == Code::kUnauthenticated)
      << channel.status().ToString();
  return channel.status().ok();
}

TEST(SecretNodesTest, AWrongTokenKeepsANodeOutAndAnEmptyFileIsAnError) {
  TempDir files;
  std::string file = files.path() + "/token";
  Write(file, kOld);
  TestCluster cluster([&](NodeConfig* c) { c->auth_token_file = file; });
  auto a = cluster.Start("a");
  EXPECT_TRUE(Admits(*a, kOld));
  EXPECT_FALSE(Admits(*a, kNew));
  file = files.path() + "/other";
  Write(file, kNew);
  auto b = cluster.Start("b", false);
  std::this_thread::sleep_for(500ms);
  EXPECT_FALSE(b->ready());
  Write(file, "");
  auto c = Node::Start(cluster.Config("c"));
  ASSERT_FALSE(c.ok());
  EXPECT_THAT(c.status().message(), HasSubstr("auth-token-file"));
  EXPECT_THAT(c.status().message(), HasSubstr("no token"));
}

TEST(SecretNodesTest, ARunningNodeTakesANewToken) {
  TempDir files;
  std::string file = files.path() + "/a";
  Write(file, kOld);
  TestCluster cluster([&](NodeConfig* c) {
    c->auth_token_file = file;
    c->auth_spread = 1500ms;
  });
  auto a = cluster.Start("a");
  const TimePoint written = Clock::now();
  Write(file, kNew);
  const auto becomes = [&](const std::string& token, bool admitted) {
    return Eventually(20s, [&] {
      std::this_thread::sleep_for(100ms);  // the gate bounds refused Hellos
      return Admits(*a, token) == admitted;
    });
  };
  EXPECT_TRUE(becomes(kNew, true));
  const bool old_admitted = Admits(*a, kOld);
  EXPECT_TRUE(old_admitted || Clock::now() >= written + 3s);
  EXPECT_TRUE(becomes(kOld, false));
  EXPECT_GE(Clock::now(), written + 3s) << "twice the spread";
  EXPECT_TRUE(Admits(*a, kNew));

  // A node that comes now knows the new one only; that it joins shows that `a` proves it, too: only
  // after `a` has published to it does it become active.
  file = files.path() + "/b";
  Write(file, kNew);
  EXPECT_TRUE(cluster.Start("b")->ready());
}

}  // namespace
}  // namespace peercache
