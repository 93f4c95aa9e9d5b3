// Pages of a get whose node dies: they are the engine's again when nothing can write into them any
// more, which may be later than the end of the connection.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "base/memory.h"
#include "base/patience_testing.h"
#include "base/permit.h"
#include "base/process.h"
#include "base/temp_dir_testing.h"
#include "client/client.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;

using testing::Eventually;
using testing::kEndsAHang;

constexpr milliseconds kGoesOn{800};
constexpr size_t kPage = 4096;

enum class Dies : uint8_t {
  kWithin,        // of a use of the pages, which go on being written
  kWithinUnlent,  // the same, as a node of an older release, which does not lend its process
  kBetween,       // no use is under way
};

// In a process of its own. Answers as a node does, up to the first get: then it closes all
// connections, as the kernel does for a process that is killed, and ends `goes_on` later. Meanwhile
// its writes stand for those of a NIC whose queue pairs the kernel has not taken down yet.
[[noreturn]] void RunDyingNode(UniqueFd listener, Dies dies, Duration goes_on) {
  struct Engine {
    UniqueFd fd;
    std::optional<Permit> permit;
    ReceivedFrame frame;
  };
  const UniqueFd process =
      dies == Dies::kWithinUnlent ? UniqueFd() : std::move(OpenThisProcess().value());
  std::list<Engine> engines;
  std::byte* pages = nullptr;
  for (;;) {
    std::vector<pollfd> events{{listener.get(), POLLIN, 0}};
    for (const Engine& engine : engines) events.push_back({engine.fd.get(), POLLIN, 0});
    poll(events.data(), events.size(), -1);
    if (UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)); fd)
      engines.emplace_back().fd = std::move(fd);
    for (Engine& engine : engines) {
      pollfd event{engine.fd.get(), POLLIN, 0};
      if (poll(&event, 1, 0) == 0) continue;
      if (!ReceiveFrame(engine.fd.get(), Clock::now() + kEndsAHang, &engine.frame).ok()) _exit(2);
      const MessageType type = engine.frame.header.type;
      FrameWriter answer;
      answer.Start(static_cast<MessageType>(static_cast<int>(type) + 1),
                   engine.frame.header.request_id);
      int lent = -1;
      if (type == MessageType::kAttach) {
        engine.permit = Permit::Map(std::move(engine.frame.fd)).value();
        AttachOk{7, "dying", "0"}.Encode(&answer);
        lent = process.get();
      } else if (type == MessageType::kRegion) {
        pages = static_cast<std::byte*>(
            mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, engine.frame.fd.get(), 0));
      } else if (type == MessageType::kGet) {
        if (dies != Dies::kBetween) (void)engine.permit->Enter();
        listener.Reset();
        for (Engine& other : engines) other.fd.Reset();
        const TimePoint end = Clock::now() + goes_on;
        for (int n = 1; Clock::now() < end; ++n) {
          if (dies != Dies::kBetween) std::memset(pages, n, kPage);
          std::this_thread::sleep_for(1ms);
        }
        _exit(0);
      }
      if (!SendFrame(engine.fd.get(), answer.Finish(), lent, Clock::now() + kEndsAHang).ok())
        _exit(3);
    }
  }
}

class DyingNodeTest : public ::testing::Test {
 protected:
  // Before the client has threads.
  void Start(Dies dies, Duration goes_on = kEndsAHang) {
    UniqueFd listener = ListenUnix(socket_, 0600).value();
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) RunDyingNode(std::move(listener), dies, goes_on);
    listener.Reset();
    client_ = Client::Connect({.socket = socket_, .engine = "test", .timeout = kEndsAHang}).value();
    ASSERT_TRUE(client_->attached());
    ASSERT_TRUE(client_->RegisterRegion(host_.fd(), host_.data(), kPage).ok());
  }
  ~DyingNodeTest() override {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  // How long it took.
  Duration GetThatFails(const std::byte* page) {
    const Segment segment{reinterpret_cast<uint64_t>(page), kPage};
    const Key key{};
    uint8_t ok = 0;
    const TimePoint start = Clock::now();
    client_->Get({&key, 1}, {&segment, 1}, 1, {&ok, 1});
    EXPECT_EQ(ok, 0);
    return Clock::now() - start;
  }
  // What the engine puts into its page stays there.
  bool PageIsTheEngines() const {
    std::ranges::fill(host_.bytes(), std::byte{0xab});
    std::this_thread::sleep_for(100ms);
    return std::ranges::all_of(host_.bytes(), [](std::byte b) { return b == std::byte{0xab}; });
  }

  testing::TempDir dir_;
  const std::string socket_ = dir_.path() + "/node.sock";
  const MappedRegion host_ = MappedRegion::Create("host", kPage, HugePages::kOff).value();
  std::unique_ptr<Client> client_;
  pid_t child_ = -1;
};

TEST_F(DyingNodeTest, AGetReturnsWhenNothingWritesIntoItsPageAnyMore) {
  Start(Dies::kWithin, kGoesOn);
  EXPECT_GE(GetThatFails(host_.data()), kGoesOn - 50ms);
  EXPECT_TRUE(PageIsTheEngines());
}

TEST_F(DyingNodeTest, OtherCallsDoNotWait) {
  Start(Dies::kWithin);
  std::atomic<bool> over{false};
  std::thread getting([&] {
    GetThatFails(host_.data());
    over = true;
  });
  const auto* const first = reinterpret_cast<const volatile std::byte*>(host_.data());
  EXPECT_TRUE(Eventually([&] { return *first != std::byte{0}; }))
      << "it writes, and has closed all";
  const Key key{};
  EXPECT_EQ(client_->Exists({&key, 1}), 0u);
  EXPECT_FALSE(over);
  kill(child_, SIGKILL);
  getting.join();
}

TEST_F(DyingNodeTest, AGetOfWhichNothingIsUnderWayDoesNotWait) {
  Start(Dies::kBetween);
  EXPECT_LT(GetThatFails(host_.data()), kEndsAHang / 2);
  EXPECT_TRUE(PageIsTheEngines());
}

TEST_F(DyingNodeTest, MemoryOfTheClientIsGivenUpInstead) {
  Start(Dies::kWithin);
  const std::vector<std::byte> unshared(kPage);
  EXPECT_LT(GetThatFails(unshared.data()), kEndsAHang / 2);
}

TEST_F(DyingNodeTest, OfAnOlderReleaseTheConnectionIsAllThatTells) {
  Start(Dies::kWithinUnlent);
  EXPECT_LT(GetThatFails(host_.data()), kEndsAHang / 2);
}

}  // namespace
}  // namespace peercache
