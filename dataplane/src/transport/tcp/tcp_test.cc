// Channel and TcpServer against each other, and each against a misbehaving other side.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "transport/tcp/channel.h"
#include "transport/tcp/server.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;

constexpr size_t kLargeAnswer = 100'000;

// Serves pages of a real pool; refuses clusters other than "test".
class PoolService : public PeerService {
 public:
  PoolService() {
    PoolOptions options;
    options.bytes = size_t{16} << 20;
    options.huge_pages = HugePages::kOff;
    auto pool = Pool::Create(options);
    EXPECT_TRUE(pool.ok()) << pool.status().ToString();
    pool_ = std::move(*pool);
  }
  Status OnHello(const Hello& hello, HelloOk* answer) override {
    if (hello.cluster != "test") return {Code::kUnauthenticated, "another cluster"};
    *answer = {99, 7};
    return {};
  }
  Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override {
    if (header.type == MessageType::kExists) {  // a small request with a large answer
      ++large_answers;
      answer->Start(MessageType::kExistsOk, header.request_id);
      const std::vector<uint8_t> zeros(kLargeAnswer);
      answer->frame.PutSpan(std::span<const uint8_t>(zeros));
      return {};
    }
    if (header.type != MessageType::kRead) return Corrupt("only Read here");
    ReadRequest request;
    if (!request.Decode(&body)) return Corrupt("malformed Read");
    answer->Start(MessageType::kReadOk, header.request_id);
    std::vector<uint32_t> lengths;
    for (const ReadItem& item : request.items) {
      PagePin pin = pool_->FindAt(item.offset, item.generation, item.key);
      lengths.push_back(pin ? static_cast<uint32_t>(pin.payload().size()) : 0);
      if (pin) answer->pages.push_back(std::move(pin));
    }
    EncodeReadOk(lengths, &answer->frame);
    return {};
  }
  ReadItem Add(uint8_t fill, size_t length) {
    auto reservation = pool_->Reserve(length);
    EXPECT_TRUE(reservation.ok());
    std::fill(reservation->payload().begin(), reservation->payload().end(), std::byte{fill});
    Key key;
    key.bytes.fill(fill);
    bool duplicate = false;
    const PagePin pin = pool_->Commit(std::move(*reservation), key, 0, 0, &duplicate);
    return {pin.offset(), pin.header().generation, static_cast<uint32_t>(length), 0, key};
  }
  std::atomic<size_t> large_answers{0};

 private:
  std::unique_ptr<Pool> pool_;
};

class BufferSink : public PayloadSink {
 public:
  explicit BufferSink(size_t size) : buffer(size) {}
  Status Accept(FrameReader body, uint64_t payload_length,
                std::vector<iovec>* destinations) override {
    if (!DecodeReadOk(&body, &lengths) || payload_length > buffer.size()) return Corrupt("bad");
    // Odd pieces, so that boundaries fall everywhere.
    for (size_t at = 0; at < payload_length;) {
      const size_t part = std::min<size_t>(7777, payload_length - at);
      destinations->push_back({buffer.data() + at, part});
      at += part;
    }
    return {};
  }
  std::vector<uint32_t> lengths;
  std::vector<std::byte> buffer;
};

struct Fixture {
  explicit Fixture(TcpServerOptions options = {}) {
    auto listener = Listen("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok());
    options.write_stall = 1s;
    server = std::make_unique<TcpServer>(std::move(*listener), &service, options);
  }
  Channel NewChannel(const std::string& cluster = "test") {
    return Channel({"127.0.0.1", server->port()}, Hello{cluster, "", 1, 1});
  }
  PoolService service;
  std::unique_ptr<TcpServer> server;
};

Status RunOne(Channel* channel, FrameWriter* request, PayloadSink* sink, Duration stall = 2s) {
  channel->Begin(request->Finish(), sink, Clock::now());
  Channel* const channels[] = {channel};
  RunAll(channels, {stall, Clock::now() + 5s});
  return channel->status();
}

FrameWriter ReadOf(std::span<const ReadItem> items, uint64_t id) {
  FrameWriter w;
  w.Start(MessageType::kRead, id);
  EncodeRead(7, items, &w);
  return w;
}

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
      for (size_t b = 0; b < sink.lengths[i]; ++b, ++at) {
        ASSERT_EQ(sink.buffer[at], std::byte(i + 1));
      }
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
  uint16_t port = 0;
  {
    auto listener = Listen("127.0.0.1", 0);
    port = listener->port;
  }
  Channel channel({"127.0.0.1", port}, Hello{"test", "", 1, 1});
  FrameWriter request = ReadOf({}, 1);
  const TimePoint start = Clock::now();
  EXPECT_EQ(RunOne(&channel, &request, nullptr).code(), Code::kUnavailable);
  EXPECT_LT(Clock::now() - start, 1s);
}

TEST(TcpTest, APeerThatHangsCostsTheStallTimeOnly) {
  auto listener = Listen("127.0.0.1", 0);  // accepts in the kernel and never answers
  Channel channel({"127.0.0.1", listener->port}, Hello{"test", "", 1, 1});
  FrameWriter request = ReadOf({}, 1);
  const TimePoint start = Clock::now();
  EXPECT_EQ(RunOne(&channel, &request, nullptr, 200ms).code(), Code::kDeadlineExceeded);
  EXPECT_GE(Clock::now() - start, 200ms);
  EXPECT_LT(Clock::now() - start, 1s);
}

TEST(TcpTest, AConnectionThatThePeerClosedMeanwhileIsStaleAndReplaced) {
  Fixture f;
  Channel channel = f.NewChannel();
  FrameWriter first = ReadOf({}, 1);
  BufferSink sink(16);
  ASSERT_TRUE(RunOne(&channel, &first, &sink).ok());
  auto listener = Listen("127.0.0.1", 0);
  const uint16_t port = f.server->port();
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

// ---- the server against hostile peers --------------------------------------------------------

UniqueFd RawConnect(uint16_t port) {
  auto fd = StartConnect("127.0.0.1", port);
  EXPECT_TRUE(fd.ok());
  EXPECT_TRUE(*WaitFor(fd->get(), POLLOUT, Clock::now() + 2s));
  return std::move(*fd);
}

// What the server sends until it closes; fails the test if it does not close in time.
std::string DrainUntilClosed(int fd) {
  std::string all;
  const TimePoint deadline = Clock::now() + 5s;
  char buffer[4096];
  for (;;) {
    const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
    if (n > 0) {
      all.append(buffer, static_cast<size_t>(n));
    } else if (n == 0 || errno != EAGAIN) {
      return all;
    } else if (!*WaitFor(fd, POLLIN, deadline)) {
      ADD_FAILURE() << "the server keeps the connection";
      return all;
    }
  }
}

void SendAll(int fd, std::span<const std::byte> bytes) {
  (void)SendFrame(fd, bytes, -1, Clock::now() + 2s);
}

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
  {
    UniqueFd fd = RawConnect(f.server->port());
    FrameWriter hello;
    hello.Start(MessageType::kHello, 0);
    Hello{"test", "", 1, 1}.Encode(&hello);
    SendAll(fd.get(), hello.Finish().first(20));
  }
  const TimePoint deadline = Clock::now() + 5s;
  while (f.server->stats().connections != 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(f.server->stats().connections, 0u);
  Channel channel = f.NewChannel();
  FrameWriter request = ReadOf({}, 1);
  BufferSink sink(16);
  EXPECT_TRUE(RunOne(&channel, &request, &sink).ok());
}

bool ServerClosed(int fd) {
  char byte;
  const ssize_t n = recv(fd, &byte, 1, 0);
  return n == 0 || (n < 0 && errno != EAGAIN);
}

template <typename Condition>
bool Eventually(Condition condition) {
  const TimePoint deadline = Clock::now() + 10s;
  while (!condition() && Clock::now() < deadline) std::this_thread::sleep_for(2ms);
  return condition();
}

void ExpectServes(Fixture* f) {
  Channel channel = f->NewChannel();
  FrameWriter request = ReadOf({}, 1);
  BufferSink sink(16);
  EXPECT_TRUE(RunOne(&channel, &request, &sink).ok()) << channel.status().ToString();
}

std::vector<std::byte> HelloFrame(const std::string& cluster) {
  FrameWriter w;
  w.Start(MessageType::kHello, 0);
  Hello{cluster, "", 1, 1}.Encode(&w);
  const auto bytes = w.Finish();
  return {bytes.begin(), bytes.end()};
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
  Fixture f({.hello_timeout = 100ms});
  UniqueFd fd = RawConnect(f.server->port());
  SendAll(fd.get(), HelloFrame("test"));
  ReceivedFrame frame;
  ASSERT_TRUE(ReceiveFrame(fd.get(), Clock::now() + 5s, &frame).ok());
  std::this_thread::sleep_for(400ms);
  EXPECT_FALSE(ServerClosed(fd.get()));
  EXPECT_EQ(f.server->stats().strangers, 0u);
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

TEST(TcpTest, OneSourceCannotHoldAllPlacesOfStrangers) {
  Fixture f({.gate = {.strangers_per_source = 3}});
  std::vector<UniqueFd> loris;
  for (int i = 0; i < 3; ++i) loris.push_back(RawConnect(f.server->port()));
  ASSERT_TRUE(Eventually([&] { return f.server->stats().strangers == 3; }));
  UniqueFd more = RawConnect(f.server->port());
  EXPECT_TRUE(Eventually([&] { return ServerClosed(more.get()); }));
  EXPECT_EQ(f.server->stats().gate.turned_away_strangers, 1u);
  loris.clear();
  ASSERT_TRUE(Eventually([&] { return f.server->stats().strangers == 0; }));
  ExpectServes(&f);
}

TEST(TcpTest, ASourceThatKeepsFailingIsTurnedAwayUnread) {
  Fixture f({.gate = {.failures = {200ms, 3}}});
  for (int i = 0; i < 3; ++i) {
    UniqueFd fd = RawConnect(f.server->port());
    SendAll(fd.get(), HelloFrame("other"));
    EXPECT_NE(DrainUntilClosed(fd.get()).find("another cluster"), std::string::npos) << i;
  }
  EXPECT_EQ(f.server->stats().gate.failures, 3u);
  UniqueFd fd = RawConnect(f.server->port());
  SendAll(fd.get(), HelloFrame("other"));
  EXPECT_EQ(DrainUntilClosed(fd.get()), "");
  EXPECT_GE(f.server->stats().gate.turned_away_failures, 1u);
  std::this_thread::sleep_for(700ms);
  ExpectServes(&f);
}

TEST(TcpTest, AnswersThatNobodyTakesDoNotPileUp) {
  Fixture f;
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
  Fixture f;
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
