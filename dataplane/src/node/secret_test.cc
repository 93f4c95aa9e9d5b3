#include "node/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "node/node_testing.h"
#include "transport/tcp/channel.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const TimePoint kStart = TimePoint(1000s);
constexpr Duration kSpread = 60s;

std::unique_ptr<Secret> Of(const std::string& contents) {
  auto secret = Secret::Of(contents, kSpread);
  EXPECT_TRUE(secret.ok()) << secret.status().ToString();
  return std::move(*secret);
}

TEST(SecretTest, TheFirstLineIsSentAllAreAccepted) {
  auto secret = Of("first\r\n\nsecond\n");
  EXPECT_EQ(secret->ToSend(kStart), "first");
  EXPECT_TRUE(secret->Accepts("first", kStart));
  EXPECT_TRUE(secret->Accepts("second", kStart));
  for (const char* wrong : {"", "f", "firs", "firstf", "firstfirst", "secondsecond", "FIRST"}) {
    EXPECT_FALSE(secret->Accepts(wrong, kStart)) << wrong;
  }
}

TEST(SecretTest, NoFileMeansNoTokenAndAcceptsNoOther) {
  auto none = Secret::Load("", kSpread);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ((*none)->ToSend(kStart), "");
  EXPECT_TRUE((*none)->Accepts("", kStart));
  EXPECT_FALSE((*none)->Accepts("x", kStart));
}

TEST(SecretTest, WhatIsNoTokenIsRefused) {
  const std::pair<std::string, const char*> cases[] = {{"", "no token"},
                                                       {"\n\r\n", "no token"},
                                                       {std::string(4097, 'x'), "4097 bytes"},
                                                       {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "9 tokens"}};
  auto secret = Of("good");
  for (const auto& [contents, text] : cases) {
    EXPECT_THAT(Secret::Of(contents, kSpread).status().message(), HasSubstr(text));
    EXPECT_THAT(secret->Replace(contents, kStart).message(), HasSubstr(text));
    EXPECT_TRUE(secret->Accepts("good", kStart + 1h)) << "the former token stays in force";
    EXPECT_FALSE(secret->Accepts("", kStart + 1h));
  }
}

TEST(SecretTest, TheOldTokenFadesAwayInTwoSteps) {
  auto secret = Of("old");
  ASSERT_TRUE(secret->Replace("new", kStart).ok());
  EXPECT_TRUE(secret->Accepts("new", kStart));
  EXPECT_EQ(secret->ToSend(kStart + kSpread - 1ms), "old");
  EXPECT_EQ(secret->ToSend(kStart + kSpread), "new");
  EXPECT_TRUE(secret->Accepts("old", kStart + 2 * kSpread - 1ms));
  EXPECT_FALSE(secret->Accepts("old", kStart + 2 * kSpread));
  EXPECT_TRUE(secret->Accepts("new", kStart + 24h));
}

// Two nodes that see changes at any times within the spread, in either order, understand each other
// at every moment, also when a second change follows before the first is through.
TEST(SecretTest, NodesUnderstandEachOtherWhileTheyRotate) {
  for (const Duration skew : {0s, 1s, 30s, 59s, 60s}) {
    for (const Duration pause : {1s, 20s, 61s, 119s, 500s}) {
      auto a = Of("one");
      auto b = Of("one");
      struct Event {
        TimePoint at;
        Secret* node;
        const char* token;
      };
      std::vector<Event> events = {{kStart, a.get(), "two"},
                                   {kStart + pause, a.get(), "three"},
                                   {kStart + skew, b.get(), "two"},
                                   {kStart + pause + skew, b.get(), "three"}};
      std::stable_sort(events.begin(), events.end(),
                       [](const Event& x, const Event& y) { return x.at < y.at; });
      auto next = events.begin();
      for (TimePoint now = kStart - 2s; now < kStart + pause + 300s; now += 500ms) {
        for (; next != events.end() && next->at <= now; ++next) {
          ASSERT_TRUE(next->node->Replace(next->token, next->at).ok());
        }
        ASSERT_TRUE(b->Accepts(a->ToSend(now), now)) << ToMillis(now - kStart) << " ms a to b";
        ASSERT_TRUE(a->Accepts(b->ToSend(now), now)) << ToMillis(now - kStart) << " ms b to a";
      }
      EXPECT_EQ(a->ToSend(kStart + pause + 300s), "three");
      EXPECT_FALSE(b->Accepts("one", kStart + pause + 300s));
      EXPECT_FALSE(b->Accepts("two", kStart + pause + 300s));
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
  Channel channel({"127.0.0.1", node.peer_port()}, Hello{"test", token, 1, 1});
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
  Write(file, "correct horse");
  TestCluster cluster([&](NodeConfig* c) { c->auth_token_file = file; });
  auto a = cluster.Start("a");
  EXPECT_TRUE(Admits(*a, "correct horse"));
  EXPECT_FALSE(Admits(*a, ""));
  file = files.path() + "/other";
  Write(file, "battery staple");
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
  Write(file, "old");
  TestCluster cluster([&](NodeConfig* c) {
    c->auth_token_file = file;
    c->auth_spread = 1500ms;
  });
  auto a = cluster.Start("a");
  const TimePoint written = Clock::now();
  Write(file, "new");
  const auto becomes = [&](const std::string& token, bool admitted) {
    return Eventually(20s, [&] {
      std::this_thread::sleep_for(100ms);  // the gate bounds refused Hellos
      return Admits(*a, token) == admitted;
    });
  };
  EXPECT_TRUE(becomes("new", true));
  const bool old_admitted = Admits(*a, "old");
  EXPECT_TRUE(old_admitted || Clock::now() >= written + 3s);
  EXPECT_TRUE(becomes("old", false));
  EXPECT_GE(Clock::now(), written + 3s) << "twice the spread";
  EXPECT_TRUE(Admits(*a, "new"));

  // A node that comes now knows the new one only; that it joins shows that `a` sends it, too: only
  // after `a` has published to it does it become active.
  file = files.path() + "/b";
  Write(file, "new");
  EXPECT_TRUE(cluster.Start("b")->ready());
}

}  // namespace
}  // namespace peercache
