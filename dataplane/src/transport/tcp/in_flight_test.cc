// Pages stay as they are until the reader's kernel has all of them, however long that takes.
#include "transport/tcp/in_flight.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <csignal>

#include "base/wrong_bytes.h"
#include "transport/tcp/tcp_testing.h"

namespace peercache {
namespace {

using namespace testing;

// More than a receiver takes that does not read, less than a sender's queue has room for.
constexpr size_t kPages = 16, kPageBytes = 64 << 10, kPayload = kPages * kPageBytes;
// Header, number of pages, their lengths, their bytes.
constexpr size_t kAnswer = sizeof(FrameHeader) + sizeof(uint32_t) * (1 + kPages) + kPayload;
constexpr Duration kRests = 100ms;  // stands in for lease and quarantine

class InFlightTest : public ::testing::Test {
 protected:
  // Those of the pages that may be taken out now rest, and are then written with other bytes.
  size_t EvictAndRewrite() {
    Pool& pool = *f_.service.pool();
    const auto victims = pool.TakeVictims(2 * kPayload, kPageBytes);
    for (const Victim& victim : victims) pool.Quarantine(victim, Clock::now() + kRests);
    std::this_thread::sleep_for(2 * kRests);
    (void)pool.Reclaim(Clock::now());
    std::vector<Reservation> written;
    for (auto slot = pool.Reserve(kPageBytes); slot.ok(); slot = pool.Reserve(kPageBytes)) {
      std::fill(slot->payload().begin(), slot->payload().end(), std::byte{0xee});
      written.push_back(std::move(*slot));
    }
    return victims.size();
  }
  FrameWriter Request() {
    for (size_t i = 0; i < kPages; ++i)
      items_.push_back(f_.service.Add(static_cast<uint8_t>(i + 1), kPageBytes));
    return ReadOf(items_, 1);
  }
  UniqueFd Asked(std::span<const std::byte> request) {
    UniqueFd fd = RawConnect(f_.server->port());
    SendAll(fd.get(), HelloFrame("test"));
    ReceivedFrame hello;
    EXPECT_TRUE(ReceiveFrame(fd.get(), Clock::now() + kEndsAHang, &hello).ok());
    SendAll(fd.get(), request);
    return fd;
  }
  // A server that soon has waited long enough for a reader.
  void Impatient() {
    auto listener = Listen("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    f_.server = std::make_unique<TcpServer>(std::move(*listener), &f_.service,
                                            TcpServerOptions{.write_stall = 1s});
  }
  bool AllGo() {
    size_t gone = 0;
    return Eventually([&] { return (gone += EvictAndRewrite()) == kPages; });
  }
  // The whole answer is with the kernel.
  bool AllSent() {
    return Eventually([&] { return f_.server->stats().bytes_sent > kPayload; });
  }

  Fixture f_;
  std::vector<ReadItem> items_;
};

// A process that reads the answer into memory that it shares, and stops itself in the middle.
class StoppedReader {
 public:
  explicit StoppedReader(int fd)
      : memory_(static_cast<std::byte*>(
            mmap(nullptr, kAnswer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    process_ = fork();
    if (process_ != 0) return;
    size_t got = Receive(fd, 0, sizeof(FrameHeader));
    (void)raise(SIGSTOP);
    got = Receive(fd, got, kAnswer);
    _exit(got == kAnswer ? 0 : 1);
  }
  ~StoppedReader() {
    if (running_) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    munmap(memory_, kAnswer);
  }
  bool Stopped() const {
    int status = 0;
    return waitpid(process_, &status, WUNTRACED) == process_ && WIFSTOPPED(status);
  }
  // True: it got all of the answer.
  bool Continue() {
    int status = 0;
    kill(process_, SIGCONT);
    running_ = waitpid(process_, &status, 0) != process_;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  std::span<const std::byte> page(size_t i) const {
    return {memory_ + kAnswer - kPayload + i * kPageBytes, kPageBytes};
  }

 private:
  // In the child: nothing but system calls.
  size_t Receive(int fd, size_t got, size_t end) {
    while (got < end) {
      pollfd ready{fd, POLLIN, 0};
      if (poll(&ready, 1, 60'000) != 1) break;
      const ssize_t n = recv(fd, memory_ + got, end - got, 0);
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    return got;
  }

  std::byte* const memory_;
  pid_t process_ = -1;
  bool running_ = true;
};

TEST_F(InFlightTest, AReaderThatWasStoppedInTheMiddleGetsThePagesItAskedFor) {
  FrameWriter request = Request();
  const UniqueFd fd = Asked(request.Finish());
  StoppedReader reader(fd.get());
  ASSERT_TRUE(reader.Stopped());
  ASSERT_TRUE(AllSent());
  EvictAndRewrite();
  ASSERT_TRUE(reader.Continue());
  for (size_t i = 0; i < kPages; ++i) {
    const std::vector<std::byte> want(kPageBytes, std::byte(i + 1));
    EXPECT_TRUE(HasRightBytes("page " + std::to_string(i), reader.page(i), want));
  }
}

TEST_F(InFlightTest, PagesMayGoOnceTheyHaveArrived) {
  FrameWriter request = Request();
  Channel channel = f_.NewChannel();
  BufferSink sink(kPayload);
  ASSERT_TRUE(RunOne(&channel, &request, &sink).ok());
  EXPECT_TRUE(AllGo());
  EXPECT_EQ(f_.server->stats().connections, 1u);
}

TEST_F(InFlightTest, AReaderThatStaysAwayIsResetAndItsPagesMayGo) {
  Impatient();
  FrameWriter request = Request();
  const UniqueFd fd = Asked(request.Finish());
  ASSERT_TRUE(AllSent());
  EXPECT_TRUE(Eventually([&] { return f_.server->stats().connections == 0; }));
  EXPECT_TRUE(AllGo());
  EXPECT_LT(DrainUntilClosed(fd.get()).size(), kPayload);
}

TEST_F(InFlightTest, AConnectionThatEndsSendsNothingMore) {
  FrameWriter request = Request();
  const UniqueFd fd = Asked(request.Finish());
  ASSERT_TRUE(AllSent());
  ASSERT_EQ(shutdown(fd.get(), SHUT_WR), 0);
  EXPECT_TRUE(Eventually([&] { return f_.server->stats().connections == 0; }));
  EXPECT_LT(DrainUntilClosed(fd.get()).size(), kPayload);
}

TEST_F(InFlightTest, AServerThatEndsSendsNothingMore) {
  FrameWriter request = Request();
  const UniqueFd fd = Asked(request.Finish());
  ASSERT_TRUE(AllSent());
  f_.server.reset();
  EXPECT_LT(DrainUntilClosed(fd.get()).size(), kPayload);
}

// The process after it may have the same memory.
TEST(InFlightKillTest, AProcessThatIsKilledSendsNothingMore) {
  auto listener = Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const UniqueFd reader = RawConnect(listener->port);
  const pid_t process = fork();
  if (process == 0) {
    const int fd = accept(listener->fd.get(), nullptr, nullptr);
    InFlight::ResetAtKill(fd);
    const std::vector<std::byte> bytes(64 << 10);
    while (send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    (void)raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  std::vector<std::byte> bytes(64 << 10);
  ssize_t n = 0;
  while ((n = recv(reader.get(), bytes.data(), bytes.size(), 0)) > 0) {
  }
  EXPECT_EQ(n, -1);
  EXPECT_EQ(errno, ECONNRESET) << "it went on to send what was in the socket";
}

TEST_F(InFlightTest, ReadsThatAreAskedForTogetherAreAllAnswered) {
  FrameWriter request = Request();
  const auto bytes = request.Finish();
  std::vector<std::byte> both(bytes.begin(), bytes.end());
  both.insert(both.end(), bytes.begin(), bytes.end());
  const UniqueFd fd = Asked(both);
  std::string got;
  EXPECT_TRUE(Eventually([&] {
    std::string part(kPayload, 0);
    const ssize_t n = recv(fd.get(), part.data(), part.size(), 0);
    if (n > 0) got.append(part, 0, static_cast<size_t>(n));
    return got.size() == 2 * kAnswer;
  }));
  EXPECT_TRUE(got.substr(0, kAnswer) == got.substr(kAnswer));
}

}  // namespace
}  // namespace peercache
