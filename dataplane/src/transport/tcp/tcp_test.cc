// Channel and TcpServer against each other, and each against a misbehaving other side.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "base/claimed_port_testing.h"
#include "base/wrong_bytes.h"
#include "transport/tcp/tcp_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using namespace peercache::testing;

TEST(TcpTest, PagesArriveInPiecesAndInOrder) {
  Fixture f;
  std::vector<ReadItem> items;
  for (int i = 1; i <= 100; ++i) items.push_back(f.service.Add(static_cast<uint8_t>(i), 60000 + i));
  items[40].generation += 1;  // moved on
  Channel channel = f.NewChannel();
  for (uint64_t round = 1; round <= 3; ++round) {
    BufferSink sink(8 << 20);
    FrameWriter request = ReadOf(items, round);
    ASSERT_TRUE(RunOne(&channel, &request, &sink).ok()) << channel.status().ToString();
    size_t at = 0;
    for (int i = 0; i < 100; ++i) {
      if (i == 40) {
        EXPECT_EQ(sink.lengths[i], 0u);
        continue;
      }
      ASSERT_EQ(sink.lengths[i], 60001u + i);
      const std::vector<std::byte> want(sink.lengths[i], std::byte(i + 1));
      ASSERT_TRUE(HasRightBytes("page " + std::to_string(i),
                                std::span(sink.buffer).subspan(at, want.size()), want));
      at += want.size();
    }
  }
  EXPECT_EQ(channel.peer_incarnation(), 7u);
}

TEST(TcpTest, AnotherClusterIsRefusedWithAReason) {
  Fixture f;
  Channel channel = f.NewChannel("other");
  FrameWriter request = ReadOf({}, 1);
  const Status s = RunOne(&channel, &request, nullptr);
  EXPECT_EQ(s.code(), Code::kUnauthenticated);
  EXPECT_NE(s.message().find("another cluster"), std::string::npos);
}

TEST(TcpTest, NobodyListeningFailsAtOnce) {
  Channel channel({"127.0.0.1", ClaimPort()}, Hello{"test", "", 1, 1});
  FrameWriter request = ReadOf({}, 1);
  EXPECT_EQ(RunOne(&channel, &request, nullptr).code(), Code::kUnavailable) << "no deadline";
}

TEST(TcpTest, APeerThatHangsCostsTheStallTimeOnly) {
  auto listener = Listen("127.0.0.1", 0);  // accepts in the kernel and never answers
  Channel channel({"127.0.0.1", listener->port}, Hello{"test", "", 1, 1});
  FrameWriter request = ReadOf({}, 1);
  const TimePoint start = Clock::now();
  EXPECT_EQ(RunOne(&channel, &request, nullptr, 200ms).code(), Code::kDeadlineExceeded);
  EXPECT_GE(Clock::now() - start, 200ms);
  EXPECT_LT(Clock::now() - start, kEndsAHang / 2) << "it waited for the call's end";
}

TEST(TcpTest, AnAnswerThatIsThereIsTakenHoweverLateTheCallerComesToIt) {
  Fixture f;
  Channel channel = f.NewChannel();
  FrameWriter first = ReadOf({}, 1);
  ASSERT_TRUE(RunOne(&channel, &first, nullptr).ok());
  FrameWriter request = ReadOf({}, 1);
  channel.Begin(request.Finish(), nullptr, Clock::now());
  pollfd entry{channel.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 15'000), 1) << "the answer";
  Channel* const channels[] = {&channel};
  RunAll(channels, {0s, Clock::now()});
  EXPECT_TRUE(channel.status().ok()) << channel.status().ToString();
}

// Grants so many writes, and then none: the owner of the memory has taken it back.
class RevokedSink : public BufferSink {
 public:
  RevokedSink(size_t size, int writes) : BufferSink(size), left_(writes) {}
  bool Enter() override {
    ++inside;
    return left_-- > 0;
  }
  void Leave() override { --inside; }
  int inside = 0;

 private:
  int left_;
};

TEST(TcpTest, NothingIsWrittenOnceTheDestinationsAreTakenBack) {
  Fixture f;
  constexpr size_t kLong = 4 << 20;  // more than one system call receives
  const ReadItem items[] = {f.service.Add(1, kLong)};
  for (const int writes : {0, 1}) {
    Channel channel = f.NewChannel();
    FrameWriter request = ReadOf(items, 1);
    RevokedSink sink(kLong, writes);
    std::fill(sink.buffer.begin(), sink.buffer.end(), std::byte{0xee});
    EXPECT_EQ(RunOne(&channel, &request, &sink).code(), Code::kAborted);
    EXPECT_EQ(sink.inside, 0);
    EXPECT_EQ(sink.buffer.back(), std::byte{0xee});
    EXPECT_EQ(sink.buffer.front(), writes == 0 ? std::byte{0xee} : std::byte{1});
  }
}

TEST(TcpTest, AConnectionThatThePeerClosedMeanwhileIsStaleAndReplaced) {
  const uint16_t port = ClaimPort();  // nobody takes it between the two servers
  Fixture f({}, nullptr, port);
  Channel channel = f.NewChannel();
  FrameWriter first = ReadOf({}, 1);
  BufferSink sink(16);
  ASSERT_TRUE(RunOne(&channel, &first, &sink).ok());
  f.server.reset();
  FrameWriter second = ReadOf({}, 2);
  EXPECT_FALSE(RunOne(&channel, &second, &sink).ok());
  EXPECT_TRUE(channel.stale());
  auto again = Listen("127.0.0.1", port);
  ASSERT_TRUE(again.ok());
  f.server = std::make_unique<TcpServer>(std::move(*again), &f.service, TcpServerOptions{});
  FrameWriter third = ReadOf({}, 3);
  EXPECT_TRUE(RunOne(&channel, &third, &sink).ok()) << channel.status().ToString();
}

// ---- congestion control -----------------------------------------------------------------------

TEST(TcpTest, AcceptedConnectionsHaveTheCongestionControlOfTheListener) {
  auto listener = Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  auto named = SetCongestion(listener->fd.get(), "reno");  // every kernel has it
  ASSERT_TRUE(named.ok()) << named.status().ToString();
  UniqueFd client = RawConnect(listener->port);
  ASSERT_TRUE(*WaitFor(listener->fd.get(), POLLIN, Clock::now() + kEndsAHang));
  UniqueFd accepted(accept(listener->fd.get(), nullptr, nullptr));
  ASSERT_TRUE(accepted);
  auto inherited = SetCongestion(accepted.get(), "auto");
  ASSERT_TRUE(inherited.ok());
  EXPECT_EQ(*inherited, "reno");
}

TEST(TcpTest, PagesAreNotPacedByTimersUnlessThatIsAskedFor) {
  auto listener = Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  auto unknown = SetCongestion(listener->fd.get(), "carrier-pigeon");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("\"carrier-pigeon\"; use auto"), std::string::npos);
  // As a host that defaults to BBR, where both may be had.
  if (SetCongestion(listener->fd.get(), "cubic").ok() &&
      SetCongestion(listener->fd.get(), "bbr").ok()) {
    auto found = SetCongestion(listener->fd.get(), "auto");
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, "cubic");
  }
}

// ---- the server against hostile peers --------------------------------------------------------

TEST(TcpTest, GarbageIsAnsweredWithAnErrorAndAClosedConnection) {
  Fixture f;
  UniqueFd fd = RawConnect(f.server->port());
  const std::string http = "GET / HTTP/1.1\r\nHost: somebody\r\nAccept: everything\r\n\r\n";
  SendAll(fd.get(), std::as_bytes(std::span(http)));
  EXPECT_NE(DrainUntilClosed(fd.get()).find("does not speak PeerCache"), std::string::npos);
  EXPECT_EQ(f.server->stats().bad_frames, 1u);
}

TEST(TcpTest, NothingButASmallHelloComesFirst) {
  Fixture f;
  {
    UniqueFd fd = RawConnect(f.server->port());
    FrameWriter request = ReadOf({}, 1);
    SendAll(fd.get(), request.Finish());
    EXPECT_NE(DrainUntilClosed(fd.get()).find("Hello"), std::string::npos);
  }
  UniqueFd fd = RawConnect(f.server->port());
  FrameHeader header;
  header.type = MessageType::kHello;
  header.body_length = kMaxBody;  // would be memory for a stranger
  SendAll(fd.get(), std::as_bytes(std::span(&header, 1)));
  EXPECT_NE(DrainUntilClosed(fd.get()).find("Hello"), std::string::npos);
}

TEST(TcpTest, ATruncatedFrameThatEndsIsForgotten) {
  Fixture f;
  const auto await = [&](uint32_t connections) {
    EXPECT_TRUE(Eventually([&] { return f.server->stats().connections == connections; }));
  };
  {
    UniqueFd fd = RawConnect(f.server->port());
    FrameWriter hello;
    hello.Start(MessageType::kHello, 0);
    Hello{"test", "", 1, 1}.Encode(&hello);
    SendAll(fd.get(), hello.Finish().first(20));
    await(1);  // or it has not come yet, and is counted only afterwards
  }
  await(0);
  Channel channel = f.NewChannel();
  FrameWriter request = ReadOf({}, 1);
  BufferSink sink(16);
  EXPECT_TRUE(RunOne(&channel, &request, &sink).ok());
}

TEST(TcpTest, ASlowHelloIsCutOffHoweverSteadilyItDrips) {
  Fixture f({.hello_timeout = 300ms});
  UniqueFd silent = RawConnect(f.server->port());
  UniqueFd dripping = RawConnect(f.server->port());
  FrameWriter w;
  w.Start(MessageType::kHello, 0);
  Hello{"test", std::string(4000, 't'), 1, 1}.Encode(&w);
  const auto hello = w.Finish();
  for (size_t i = 0; i < hello.size() && !ServerClosed(dripping.get()); ++i) {
    SendAll(dripping.get(), hello.subspan(i, 1));
    std::this_thread::sleep_for(10ms);  // would be 40 s
  }
  EXPECT_TRUE(ServerClosed(dripping.get()));
  EXPECT_TRUE(Eventually([&] { return ServerClosed(silent.get()); }));
  EXPECT_EQ(f.server->stats().too_slow, 2u);
  EXPECT_TRUE(Eventually([&] { return f.server->stats().connections == 0; }));
}

TEST(TcpTest, APeerThatHasGreetedMayBeSilent) {
  Fixture f({.hello_timeout = 1s});
  UniqueFd fd = RawConnect(f.server->port());
  SendAll(fd.get(), HelloFrame("test"));
  ReceivedFrame frame;
  ASSERT_TRUE(ReceiveFrame(fd.get(), Clock::now() + kEndsAHang, &frame).ok());
  const UniqueFd stranger = RawConnect(f.server->port());  // which came later
  ASSERT_TRUE(Eventually([&] { return f.server->stats().too_slow == 1; }));
  EXPECT_TRUE(Eventually([&] { return f.server->stats().strangers == 0; }));
  EXPECT_FALSE(ServerClosed(fd.get()));
}

TEST(TcpTest, StrangersInExcessCostTheOldestTheirPlaces) {
  Fixture f({.threads = 1, .max_strangers = 4});
  std::vector<UniqueFd> loris;
  for (uint64_t i = 0; i < 6; ++i) {
    loris.push_back(RawConnect(f.server->port()));
    ASSERT_TRUE(Eventually([&] { return f.server->stats().accepted == i + 1; }));
  }
  ASSERT_TRUE(Eventually([&] { return f.server->stats().crowded_out == 2; }));
  EXPECT_TRUE(Eventually([&] { return ServerClosed(loris[0].get()); }));
  EXPECT_TRUE(Eventually([&] { return ServerClosed(loris[1].get()); }));
  EXPECT_FALSE(ServerClosed(loris[5].get()));
  ExpectServes(&f);
}

TEST(TcpTest, StrangersOfOneSourceInExcessCostItsOldestTheirPlaces) {
  Fixture f({.threads = 1, .gate = {.strangers_per_source = 3}});
  std::vector<UniqueFd> loris;
  for (uint64_t i = 0; i < 5; ++i) {
    loris.push_back(RawConnect(f.server->port()));
    ASSERT_TRUE(Eventually([&] { return f.server->stats().accepted == i + 1; }));
  }
  EXPECT_TRUE(Eventually([&] { return ServerClosed(loris[0].get()); }));
  EXPECT_TRUE(Eventually([&] { return ServerClosed(loris[1].get()); }));
  EXPECT_EQ(f.server->stats().strangers, 3u);
  EXPECT_EQ(f.server->stats().source_crowded_out, 2u);
  EXPECT_FALSE(ServerClosed(loris[4].get()));
  ExpectServes(&f);
}

TEST(TcpTest, ASourceThatKeepsFailingIsNotAnsweredAndItsMembersAre) {
  Fixture f({.gate = {.failures = {kEndsAHang, 3}}});
  for (int i = 0; i < 3; ++i) {
    UniqueFd fd = RawConnect(f.server->port());
    SendAll(fd.get(), HelloFrame("other"));
    EXPECT_NE(DrainUntilClosed(fd.get()).find("another cluster"), std::string::npos) << i;
  }
  UniqueFd fd = RawConnect(f.server->port());
  SendAll(fd.get(), HelloFrame("other"));
  EXPECT_EQ(DrainUntilClosed(fd.get()), "");
  EXPECT_EQ(f.server->stats().gate.failures, 4u);
  EXPECT_EQ(f.server->stats().gate.unanswered, 1u);
  ExpectServes(&f);
}

TEST(TcpTest, AnswersThatNobodyTakesDoNotPileUp) {
  Fixture f({.write_stall = 1s});
  UniqueFd fd = RawConnect(f.server->port());
  SendAll(fd.get(), HelloFrame("test"));
  std::vector<std::byte> requests;
  for (uint64_t i = 0; i < 4000; ++i) {
    FrameWriter w;
    w.Start(MessageType::kExists, i);
    const auto bytes = w.Finish();
    requests.insert(requests.end(), bytes.begin(), bytes.end());
  }
  SendAll(fd.get(), requests);
  ASSERT_TRUE(Eventually([&] { return f.service.large_answers > 0; }));
  ASSERT_TRUE(Eventually([&] { return f.server->stats().connections == 0; })) << "write_stall";
  // 1 MiB of answers and what the kernel's buffers take, not the 400 MB that were asked for.
  EXPECT_LT(f.service.large_answers * kLargeAnswer, size_t{64} << 20);
}

TEST(TcpTest, APeerThatDoesNotTakeItsAnswerIsDisconnected) {
  Fixture f({.write_stall = 1s});
  std::vector<ReadItem> items;
  for (int i = 1; i <= 100; ++i) items.push_back(f.service.Add(static_cast<uint8_t>(i), 100000));
  UniqueFd fd = RawConnect(f.server->port());
  FrameWriter hello;
  hello.Start(MessageType::kHello, 0);
  Hello{"test", "", 1, 1}.Encode(&hello);
  SendAll(fd.get(), hello.Finish());
  FrameWriter request = ReadOf(items, 1);
  SendAll(fd.get(), request.Finish());
  ASSERT_TRUE(Eventually([&] { return f.server->stats().accepted == 1; }));
  EXPECT_TRUE(Eventually([&] { return f.server->stats().connections == 0; }));
}

}  // namespace
}  // namespace peercache
