// Strangers and impostors at the port for peers of a node that has a secret, and in its peers' way:
// what they may see, and what they get.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "node/integration/node_testing.h"
#include "node/peer/secret.h"
#include "transport/peer_key.h"
#include "transport/tcp/channel.h"
#include "transport/tcp/socket.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::TestCluster;
using testing::TestEngine;

constexpr char kToken[] = "correct horse battery staple";
constexpr size_t kPage = 16 << 10;
constexpr size_t kPages = 64;

PeerKey OfToken(const std::string& token) { return *DeriveKey("test", token); }

// A node with a secret.
struct Guarded {
  TempDir files;
  std::string file = files.Write("token", std::string(kToken) + "\n");
  TestCluster cluster{[this](NodeConfig* c) {
    c->auth_token_file = file;
    c->auth_spread = 1000ms;
    c->promotion_percent = 0;  // every read of another node goes there
  }};
  std::unique_ptr<Node> node = cluster.Start("a");
  std::string address = fmt::format("127.0.0.1:{}", node->peer_port());
};

FrameWriter ClearTag() {
  FrameWriter w;
  w.Start(MessageType::kClearTag, 1);
  w.Put(uint64_t{1});  // what TestEngine sets
  return w;
}

Status Ask(Channel* channel, FrameWriter request) {
  channel->Begin(request.Finish(), nullptr, Clock::now());
  Channel* const channels[] = {channel};
  RunAll(channels, {testing::kEndsAHang, Clock::now() + testing::kEndsAHang});
  return channel->status();
}

Channel Caller(const Guarded& g, const std::string& token, const std::string& to,
               uint64_t expected = 0) {
  return Channel({"127.0.0.1", g.node->peer_port()}, Hello{"test", to, 1, 1}, nullptr,
                 Channel::Proving{OfToken(token), expected});
}

TEST(ProvingTest, WhoeverHasTheSecretIsAnswered) {
  Guarded g;
  Channel channel = Caller(g, kToken, g.address, NodeHash("a"));
  const Status s = Ask(&channel, ClearTag());
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_NE(channel.peer_incarnation(), 0u);
}

// What a default cluster allowed: a Hello with the cluster's name, and a ClearTag.
TEST(ProvingTest, AStrangerTakesNoPages) {
  Guarded g;
  TestEngine engine(g.node->socket(), kPages, kPage);
  ASSERT_EQ(engine.Set(0, kPages), kPages);
  Channel without({"127.0.0.1", g.node->peer_port()}, Hello{"test", "", 1, 1});
  Channel wrong = Caller(g, "a token that is wrong", g.address);
  for (Channel* channel : {&without, &wrong}) {
    const Status s = Ask(channel, ClearTag());
    EXPECT_EQ(s.code(), Code::kUnauthenticated) << s.ToString();
    EXPECT_THAT(s.message(), HasSubstr("--auth-token-file"));
  }
  EXPECT_EQ(engine.Exists(0, kPages), kPages);
}

// One that has listened knows the key's id, all messages, and all proofs of another connection.
TEST(ProvingTest, WhatWasHeardIsOfNoUse) {
  Guarded g;
  Hello hello{"test", g.address, 1, 1, 0, OfToken(kToken).id, {9}};
  const auto greet = [&](UniqueFd* fd, Challenge* challenge) {
    auto connected = StartConnect("127.0.0.1", g.node->peer_port());
    ASSERT_TRUE(connected.ok());
    *fd = std::move(*connected);
    FrameWriter w;
    w.Start(MessageType::kHello, 0);
    hello.Encode(&w);
    ASSERT_TRUE(SendFrame(fd->get(), w.Finish(), -1, Clock::now() + testing::kEndsAHang).ok());
    ReceivedFrame frame;
    ASSERT_TRUE(ReceiveFrame(fd->get(), Clock::now() + testing::kEndsAHang, &frame).ok());
    ASSERT_EQ(frame.header.type, MessageType::kChallenge);
    FrameReader body(frame.body);
    ASSERT_TRUE(challenge->Decode(&body));
    challenge->machine = frame.header.number;
  };
  const auto answer = [&](int fd, const Proof& proof) {
    FrameWriter w;
    w.Start(MessageType::kProve, 0);
    ProveMessage{proof}.Encode(&w);
    (void)SendFrame(fd, w.Finish(), -1, Clock::now() + testing::kEndsAHang);
    ReceivedFrame frame;
    return ReceiveFrame(fd, Clock::now() + testing::kEndsAHang, &frame).ok() ? frame.header.type
                                                                             : MessageType::kHello;
  };
  UniqueFd first, second;
  Challenge heard, fresh;
  ASSERT_NO_FATAL_FAILURE(greet(&first, &heard));
  const Proof good = *Prove(OfToken(kToken), PeerRole::kCaller, hello, heard);
  ASSERT_EQ(answer(first.get(), good), MessageType::kProveOk);
  ASSERT_NO_FATAL_FAILURE(greet(&second, &fresh));
  EXPECT_NE(heard.nonce, fresh.nonce);
  EXPECT_EQ(answer(second.get(), good), MessageType::kError) << "a proof of before";
  ASSERT_NO_FATAL_FAILURE(greet(&second, &fresh));
  EXPECT_EQ(answer(second.get(), fresh.proof), MessageType::kError) << "the node's own proof";
  // Nothing is answered before the proof.
  ASSERT_NO_FATAL_FAILURE(greet(&second, &fresh));
  FrameWriter request = ClearTag();
  (void)SendFrame(second.get(), request.Finish(), -1, Clock::now() + testing::kEndsAHang);
  ReceivedFrame frame;
  ASSERT_TRUE(ReceiveFrame(second.get(), Clock::now() + testing::kEndsAHang, &frame).ok());
  EXPECT_EQ(frame.header.type, MessageType::kError);
}

// Its address was a member's before, perhaps. It is told the caller's name and nothing else.
TEST(ProvingTest, AnImpostorIsToldNothing) {
  auto listener = Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  std::string heard;
  std::thread impostor([&] {
    ASSERT_TRUE(*WaitFor(listener->fd.get(), POLLIN, Clock::now() + testing::kEndsAHang));
    const UniqueFd fd(accept4(listener->fd.get(), nullptr, nullptr, SOCK_NONBLOCK));
    ReceivedFrame frame;
    ASSERT_TRUE(ReceiveFrame(fd.get(), Clock::now() + testing::kEndsAHang, &frame).ok());
    EXPECT_EQ(frame.header.type, MessageType::kHello);
    FrameWriter w;
    w.Start(MessageType::kChallenge, 0);
    Challenge{NodeHash("a"), 1, 0, {7}, {8}}.Encode(&w);
    ASSERT_TRUE(SendFrame(fd.get(), w.Finish(), -1, Clock::now() + testing::kEndsAHang).ok());
    char rest[4096];
    for (ssize_t n = 1; n != 0;) {
      ASSERT_TRUE(*WaitFor(fd.get(), POLLIN, Clock::now() + testing::kEndsAHang));
      n = recv(fd.get(), rest, sizeof(rest), 0);
      if (n < 0) break;
      heard.append(rest, static_cast<size_t>(n));
    }
  });
  Channel channel({"127.0.0.1", listener->port}, Hello{"test", "127.0.0.1:1", 1, 1}, nullptr,
                  Channel::Proving{OfToken(kToken), NodeHash("a")});
  const Status s = Ask(&channel, ClearTag());
  impostor.join();
  EXPECT_EQ(s.code(), Code::kUnauthenticated) << s.ToString();
  EXPECT_EQ(heard, "") << "neither request nor proof";
}

// Somebody in the middle has the address of a member that is gone, and passes all on to another.
TEST(ProvingTest, NobodyStandsBetweenMembers) {
  Guarded g;
  Channel to_another = Caller(g, kToken, "127.0.0.1:1", NodeHash("gone"));
  Status s = Ask(&to_another, ClearTag());
  EXPECT_EQ(s.code(), Code::kUnavailable) << s.ToString();
  EXPECT_THAT(s.message(), HasSubstr("has dialled 127.0.0.1:1"));
  Channel wrong_node = Caller(g, kToken, g.address, NodeHash("gone"));
  s = Ask(&wrong_node, ClearTag());
  EXPECT_EQ(s.code(), Code::kUnavailable) << s.ToString();
  EXPECT_THAT(s.message(), HasSubstr("answers, not"));
}

TEST(ProvingTest, WhoHasDialledNobodyIsHeardOfMembershipOnly) {
  Guarded g;
  Channel channel = Caller(g, kToken, "");
  FrameWriter leave;
  leave.Start(MessageType::kLeave, 1);
  LeaveRequest{"nobody", 1}.Encode(&leave);
  Status s = Ask(&channel, leave);
  EXPECT_TRUE(s.ok()) << s.ToString();
  s = Ask(&channel, ClearTag());
  EXPECT_EQ(s.code(), Code::kUnauthenticated) << s.ToString();
  EXPECT_THAT(s.message(), HasSubstr("membership only"));
}

TEST(ProvingTest, ConnectionsEndWithTheirSecret) {
  Guarded g;
  Channel old = Caller(g, kToken, g.address);
  ASSERT_TRUE(Ask(&old, ClearTag()).ok());
  const TimePoint written = Clock::now();
  g.files.Write("token", "a new token of the cluster\n");
  EXPECT_TRUE(Eventually(20s, [&] {
    char byte;
    return recv(old.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }));
  EXPECT_GE(Clock::now(), written + 2s) << "twice the spread";
  EXPECT_EQ(Ask(&old, ClearTag()).code(), Code::kUnavailable) << "it is closed";
  EXPECT_EQ(Ask(&old, ClearTag()).code(), Code::kUnauthenticated) << "and cannot be made anew";
  Channel fresh = Caller(g, "a new token of the cluster", g.address);
  EXPECT_TRUE(Ask(&fresh, ClearTag()).ok());
}

// Two nodes under load take a new secret; no page is missed, and none is wrong.
TEST(ProvingTest, RotationCostsNoHit) {
  Guarded g;
  auto b = g.cluster.Start("b");
  TestEngine on_a(g.node->socket(), kPages, kPage), on_b(b->socket(), kPages, kPage);
  ASSERT_EQ(on_a.Set(0, kPages), kPages);
  g.files.Write("token", "a new token of the cluster\n");
  const TimePoint end = Clock::now() + 7s;  // both see it, 1 s, 1 s more, and a sweep
  while (Clock::now() < end) {
    const auto got = on_b.Get(0, kPages);
    EXPECT_EQ(got.hits, kPages);
    EXPECT_EQ(got.wrong, 0u);
  }
}

}  // namespace
}  // namespace peercache
