// The HTTP port while strangers fill it. In each test probes of /healthz are answered, and what
// the server holds stays bounded.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/descriptors.h"
#include "node/report/http.h"
#include "node/report/http_get.h"
#include "node/report/process_stats.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using std::chrono::seconds;

// For a probe, with a sanitizer on a busy machine. tests/hostile/test_http.py measures how soon it
// is answered.
constexpr seconds kLimit{30};
constexpr int kRounds = 10;
constexpr size_t kStrangers = 1000;
// Of the server: its connections, those that it has yet to close, and a few of its own.
constexpr uint64_t kMaxDescriptors = 256 + 64 + 16;
constexpr uint64_t kMaxThreads = 2 + 1;  // and one of ThreadSanitizer
constexpr size_t kLong = 1 << 20;

UniqueFd ConnectFrom(const char* source, uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, source, &address.sin_addr);
  // The port is chosen by connect: by then it need not differ from those to other addresses.
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return {};
  address.sin_port = htons(port);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
      errno != EINPROGRESS)
    return {};
  // Thousands of ports that wait for a minute would be missed by the next test.
  const linger reset{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  return fd;
}

// Connections that are made again whenever the server has closed them.
class Flood {
 public:
  enum class Reads : uint8_t { kNothing, kAll };
  // Each round, each connection sends `what` of how many bytes it has sent.
  Flood(uint16_t port, size_t size, std::function<std::string(size_t)> what,
        Reads reads = Reads::kNothing)
      : port_(port), strangers_(size), what_(std::move(what)), reads_(reads) {
    for (Stranger& stranger : strangers_) stranger.fd = ConnectFrom("127.0.0.1", port_);
  }
  void Round() {
    for (Stranger& stranger : strangers_) Disturb(&stranger);
  }
  size_t size() const { return strangers_.size(); }
  size_t returns() const { return returns_; }

 private:
  struct Stranger {
    UniqueFd fd;
    size_t sent = 0;
  };
  void Read(int fd) {
    static char part[1 << 16];
    while (reads_ == Reads::kAll && recv(fd, part, sizeof(part), 0) > 0) continue;
  }
  void Disturb(Stranger* stranger) {
    Read(stranger->fd.get());
    pollfd entry{stranger->fd.get(), POLLRDHUP | POLLOUT, 0};
    if (!stranger->fd || (poll(&entry, 1, 0) == 1 && (entry.revents & ~POLLOUT) != 0)) {
      stranger->fd = ConnectFrom("127.0.0.1", port_);
      stranger->sent = 0;
      ++returns_;
      return;
    }
    const std::string text = what_(stranger->sent);
    if ((entry.revents & POLLOUT) == 0 || text.empty()) return;
    const ssize_t n = send(stranger->fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (n > 0) stranger->sent += static_cast<size_t>(n);
  }
  const uint16_t port_;
  std::vector<Stranger> strangers_;
  const std::function<std::string(size_t)> what_;
  const Reads reads_;
  size_t returns_ = 0;
};

class HttpFloodTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RaiseDescriptorLimit().ok());
    ASSERT_GT(ReadDescriptorLimit().soft, 2 * kStrangers) << "raise the hard limit: ulimit -Hn";
    HttpHandlers handlers;
    handlers.healthy = handlers.ready = [] { return Status(); };
    handlers.metrics = [] {
      std::this_thread::sleep_for(milliseconds(5));
      return std::string(kLong, 'm');
    };
    handlers.status = [](Asker) {
      std::this_thread::sleep_for(milliseconds(300));
      return std::string("{}");
    };
    before_ = ReadProcessStats();
    auto http = Http::Bind("127.0.0.1", 0, std::move(handlers));
    ASSERT_TRUE(http.ok()) << http.status().ToString();
    http_ = std::move(*http);
    ASSERT_TRUE(http_->Serve().ok());
  }
  HttpStats Stats() const { return http_->stats(); }

  // Probes are answered in turns with the rounds of the flood, and all is bounded meanwhile.
  void Survives(Flood* flood) {
    for (int i = 0; i < kRounds; ++i) {
      flood->Round();
      const auto answer = HttpGet("127.0.0.1", http_->port(), "/healthz", kLimit);
      ASSERT_TRUE(answer.ok()) << "probe " << i << ": " << answer.status().ToString();
      EXPECT_EQ(answer->status, 200);
    }
    const ProcessStats now = ReadProcessStats();
    EXPECT_LE(now.open_fds, before_.open_fds + flood->size() + kMaxDescriptors);
    EXPECT_LE(now.threads, before_.threads + kMaxThreads);
  }
  // They are dropped and come back.
  static void ExpectReturns(Flood* flood) {
    const TimePoint deadline = Clock::now() + kLimit;
    while (flood->returns() == 0) {
      ASSERT_LT(Clock::now(), deadline) << "they may send what they like";
      flood->Round();
      std::this_thread::sleep_for(milliseconds(10));
    }
  }

  ProcessStats before_;
  std::unique_ptr<Http> http_;
};

TEST_F(HttpFloodTest, IdleConnections) {
  Flood flood(http_->port(), kStrangers, [](size_t) { return std::string(); });
  Survives(&flood);
  EXPECT_GT(Stats().crowded_out, 0u);
}

TEST_F(HttpFloodTest, HeadersThatDrip) {
  const std::string header = "GET /healthz HTTP/1.1\r\nX: ";
  Flood flood(http_->port(), kStrangers, [&](size_t sent) {
    return std::string(1, sent < header.size() ? header[sent] : 'x');
  });
  Survives(&flood);
  EXPECT_GT(Stats().crowded_out, 0u);
}

TEST_F(HttpFloodTest, Garbage) {
  std::minstd_rand random(1);
  Flood flood(http_->port(), kStrangers, [&](size_t) {
    std::string bytes(200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  });
  Survives(&flood);
  ExpectReturns(&flood);
}

TEST_F(HttpFloodTest, HeadersWithoutEnd) {
  const std::string start = "GET /healthz HTTP/1.1\r\nX: ";
  Flood flood(http_->port(), 50,
              [&](size_t sent) { return sent == 0 ? start : std::string(16 << 10, 'x'); });
  Survives(&flood);
  ExpectReturns(&flood);
}

TEST_F(HttpFloodTest, AnswersThatNobodyReads) {
  Flood flood(http_->port(), kStrangers, [](size_t sent) {
    return std::string(sent == 0 ? "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" : "");
  });
  Survives(&flood);
  EXPECT_GT(Stats().crowded_out, 0u);
}

TEST_F(HttpFloodTest, PipelinedRequests) {
  std::string requests;
  for (int i = 0; i < 500; ++i) requests += "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  Flood flood(
      http_->port(), 100, [&](size_t) { return requests; }, Flood::Reads::kAll);
  Survives(&flood);
  ExpectReturns(&flood);
}

TEST_F(HttpFloodTest, AnswersThatTakeLongToMake) {
  Flood flood(http_->port(), 100, [](size_t sent) {
    return std::string(sent == 0 ? "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n" : "");
  });
  Survives(&flood);
}

// Who comes from elsewhere keeps his place for as long as he may.
TEST_F(HttpFloodTest, AFloodDisplacesItself) {
  const UniqueFd slow = ConnectFrom("127.0.0.2", http_->port());
  ASSERT_TRUE(slow);
  ASSERT_TRUE(WaitFor(slow.get(), POLLOUT, Clock::now() + kLimit).value());
  ASSERT_EQ(send(slow.get(), "GET /hea", 8, MSG_NOSIGNAL), 8);
  Flood flood(http_->port(), kStrangers, [](size_t) { return std::string(); });
  while (Stats().crowded_out < kStrangers) flood.Round();
  ASSERT_EQ(send(slow.get(), "lthz HTTP/1.0\r\n\r\n", 17, MSG_NOSIGNAL), 17);
  ASSERT_TRUE(WaitFor(slow.get(), POLLIN, Clock::now() + kLimit).value());
  char answer[64] = {};
  ASSERT_GT(recv(slow.get(), answer, sizeof(answer) - 1, 0), 0);
  EXPECT_EQ(std::string(answer).substr(0, 12), "HTTP/1.1 200");
}

class HttpPatienceTest : public HttpFloodTest {};

// Also when there is room for everybody: a byte now and then does not buy more time.
TEST_F(HttpPatienceTest, NobodyStaysForLongerThanItTakes) {
  const TimePoint start = Clock::now();
  const UniqueFd drips = ConnectFrom("127.0.0.1", http_->port());
  const UniqueFd reads_nothing = ConnectFrom("127.0.0.1", http_->port());
  for (const UniqueFd* fd : {&drips, &reads_nothing})
    ASSERT_TRUE(WaitFor(fd->get(), POLLOUT, start + kLimit).value());
  const int small = 4096;
  setsockopt(reads_nothing.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  ASSERT_EQ(send(reads_nothing.get(), "GET /metrics HTTP/1.0\r\n\r\n", 25, MSG_NOSIGNAL), 25);
  while (Stats().connections > 0 || Stats().too_slow == 0) {
    ASSERT_LT(Clock::now() - start, seconds(60)) << Stats().connections << " are still there";
    (void)send(drips.get(), "x", 1, MSG_NOSIGNAL);
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_GT(Clock::now() - start, seconds(5));
  EXPECT_EQ(Stats().too_slow, 2u);
}

}  // namespace
}  // namespace peercache
