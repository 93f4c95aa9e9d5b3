// A server of pages and what talks to it, for the tests of TcpServer and Channel.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/patience_testing.h"
#include "transport/tcp/channel.h"
#include "transport/tcp/read_testing.h"
#include "transport/tcp/server.h"
#include "wire/stream.h"

namespace peercache::testing {

using namespace std::chrono_literals;

constexpr size_t kLargeAnswer = 100'000;

// Serves pages of a real pool; refuses clusters other than "test".
class PoolService : public PeerService {
 public:
  PoolService() {
    PoolOptions options;
    options.bytes = size_t{64} << 20;
    options.huge_pages = HugePages::kOff;
    auto pool = Pool::Create(options);
    EXPECT_TRUE(pool.ok()) << pool.status().ToString();
    pool_ = std::move(*pool);
  }
  Status OnHello(const Hello& hello, Greeting* answer) override {
    if (hello.cluster != "test") return {Code::kUnauthenticated, "another cluster"};
    *answer = {{99, 7}};
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
    AnswerRead(pool_.get(), request, header.request_id, answer);
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
  Pool* pool() { return pool_.get(); }
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
  // With options.tls, channels speak TLS too, with `tls_of_peers` if it is given. Without bounds of
  // the test's own, a peer that a busy machine stops is not one that takes, or says, nothing.
  explicit Fixture(TcpServerOptions options = {}, const Tls* tls_of_peers = nullptr,
                   uint16_t port = 0)
      : peers(tls_of_peers != nullptr ? tls_of_peers : options.tls) {
    auto listener = Listen("127.0.0.1", port);
    EXPECT_TRUE(listener.ok());
    const TcpServerOptions usual;
    if (options.write_stall == usual.write_stall) options.write_stall = kEndsAHang;
    if (options.hello_timeout == usual.hello_timeout) options.hello_timeout = kEndsAHang;
    server = std::make_unique<TcpServer>(std::move(*listener), &service, options);
  }
  Channel NewChannel(const std::string& cluster = "test") {
    return Channel({"127.0.0.1", server->port()}, Hello{cluster, "", 1, 1}, peers);
  }
  const Tls* const peers;
  PoolService service;
  std::unique_ptr<TcpServer> server;
};

inline Status RunOne(Channel* channel, FrameWriter* request, PayloadSink* sink,
                     Duration stall = kEndsAHang) {
  channel->Begin(request->Finish(), sink, Clock::now());
  Channel* const channels[] = {channel};
  RunAll(channels, {stall, Clock::now() + kEndsAHang});
  return channel->status();
}

inline FrameWriter ReadOf(std::span<const ReadItem> items, uint64_t id) {
  FrameWriter w;
  w.Start(MessageType::kRead, id);
  EncodeRead(7, items, &w);
  return w;
}

// ---- a peer of raw bytes

inline UniqueFd RawConnect(uint16_t port) {
  auto fd = StartConnect("127.0.0.1", port);
  EXPECT_TRUE(fd.ok());
  EXPECT_TRUE(*WaitFor(fd->get(), POLLOUT, Clock::now() + kEndsAHang));
  return std::move(*fd);
}

// What the server sends until it closes; fails the test if it does not close in time.
inline std::string DrainUntilClosed(int fd) {
  std::string all;
  const TimePoint deadline = Clock::now() + kEndsAHang;
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

inline void SendAll(int fd, std::span<const std::byte> bytes) {
  (void)SendFrame(fd, bytes, -1, Clock::now() + kEndsAHang);
}

inline bool ServerClosed(int fd) {
  char byte;
  const ssize_t n = recv(fd, &byte, 1, 0);
  return n == 0 || (n < 0 && errno != EAGAIN);
}

inline void ExpectServes(Fixture* f) {
  Channel channel = f->NewChannel();
  FrameWriter request = ReadOf({}, 1);
  BufferSink sink(16);
  EXPECT_TRUE(RunOne(&channel, &request, &sink).ok()) << channel.status().ToString();
}

inline std::vector<std::byte> HelloFrame(const std::string& cluster) {
  FrameWriter w;
  w.Start(MessageType::kHello, 0);
  Hello{cluster, "", 1, 1}.Encode(&w);
  const auto bytes = w.Finish();
  return {bytes.begin(), bytes.end()};
}

}  // namespace peercache::testing
