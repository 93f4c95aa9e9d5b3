#include "wire/stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;

class StreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    sender_ = UniqueFd(ends[0]);
    receiver_ = UniqueFd(ends[1]);
  }
  static std::vector<std::byte> Frame(uint64_t id, size_t body) {
    FrameWriter w;
    w.Start(MessageType::kExists, id);
    const std::vector<uint8_t> bytes(body, static_cast<uint8_t>(id));
    w.PutSpan(std::span<const uint8_t>(bytes));
    const auto frame = w.Finish();
    return {frame.begin(), frame.end()};
  }
  void Send(std::span<const std::byte> bytes, int fd = -1) {
    ASSERT_TRUE(SendFrame(sender_.get(), bytes, fd, Clock::now() + 5s).ok());
  }
  Status Receive() { return ReceiveFrame(receiver_.get(), Clock::now() + 5s, &frame_); }
  void ExpectFrame(uint64_t id, size_t body, bool with_descriptor = false) {
    const Status s = Receive();
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(frame_.header.request_id, id);
    EXPECT_EQ(frame_.body.size(), body);
    EXPECT_TRUE(std::ranges::all_of(frame_.body, [&](std::byte b) { return b == std::byte(id); }));
    EXPECT_EQ(static_cast<bool>(frame_.fd), with_descriptor) << "frame " << id;
  }
  UniqueFd sender_, receiver_;
  ReceivedFrame frame_;
};

TEST_F(StreamTest, FramesThatCameTogetherAreTakenApart) {
  std::vector<std::byte> all;
  for (uint64_t id = 1; id <= 3; ++id) std::ranges::copy(Frame(id, 10 * id), back_inserter(all));
  Send(all);
  for (uint64_t id = 1; id <= 3; ++id) ExpectFrame(id, 10 * id);
  sender_.Reset();
  EXPECT_EQ(Receive().code(), Code::kUnavailable);
}

TEST_F(StreamTest, AFrameMayComeInPiecesBehindAnother) {
  const auto second = Frame(2, 100);
  for (size_t cut = 1; cut < second.size(); cut += 13) {
    auto both = Frame(1, 7);
    std::ranges::copy(std::span(second).first(cut), back_inserter(both));
    Send(both);
    ExpectFrame(1, 7);
    Send(std::span(second).subspan(cut));
    ExpectFrame(2, 100);
  }
}

TEST_F(StreamTest, ADescriptorBelongsToTheFrameItWasSentWith) {
  for (uint64_t id = 1; id <= 8; ++id) Send(Frame(id, 20), id % 3 == 0 ? STDERR_FILENO : -1);
  for (uint64_t id = 1; id <= 8; ++id) ExpectFrame(id, 20, id % 3 == 0);
}

TEST_F(StreamTest, LargeFramesKeepTheirDescriptorsToo) {
  constexpr size_t kLarge = 60'000;  // more than the buffer has room for at first
  for (const auto& [id, body] : {std::pair{1, 5}, {2, 60'000}, {3, 5}, {4, 5}})
    Send(Frame(static_cast<uint64_t>(id), static_cast<size_t>(body)),
         id % 2 == 0 ? STDERR_FILENO : -1);
  ExpectFrame(1, 5);
  ExpectFrame(2, kLarge, true);
  ExpectFrame(3, 5);
  ExpectFrame(4, 5, true);
}

TEST_F(StreamTest, MemoryGrowsWithWhatArrives) {
  constexpr size_t kLarge = 5 << 20;
  const auto frame = Frame(7, kLarge);
  Send(std::span(frame).first(100));
  EXPECT_EQ(ReceiveFrame(receiver_.get(), Clock::now() + 50ms, &frame_).code(),
            Code::kDeadlineExceeded);
  EXPECT_LE(frame_.in.size(), size_t{16} << 10) << "5 MiB were announced";

  std::thread rest([&] { Send(std::span(frame).subspan(100)); });
  ExpectFrame(7, kLarge);
  rest.join();
  EXPECT_LT(frame_.in.size(), 2 * kLarge);
}

TEST_F(StreamTest, ALargeFrameWaitsForMemoryAndGivesItBack) {
  constexpr size_t kLarge = 5 << 20;
  FrameMemory memory((6 << 20) + FrameMemory::kForSmaller);
  frame_ = ReceivedFrame(&memory);
  FrameMemory::Hold other(&memory);
  ASSERT_TRUE(other.Ask(FrameMemory::kLarge, sender_.get()));
  other.Whole();
  std::thread sends([&] {
    Send(Frame(7, kLarge));
    Send(Frame(8, 10));
  });
  EXPECT_EQ(ReceiveFrame(receiver_.get(), Clock::now() + 50ms, &frame_).code(),
            Code::kDeadlineExceeded);
  EXPECT_LE(frame_.in.size(), FrameMemory::kFree);
  other.Release();
  ExpectFrame(7, kLarge);
  EXPECT_GT(memory.stats().held, kLarge);
  ExpectFrame(8, 10);
  sends.join();
  EXPECT_EQ(memory.stats().held, 0u);
  EXPECT_LE(frame_.in.size(), FrameMemory::kFree);
}

// What an engine that has attached may do: be silent between frames, but not in one.
TEST_F(StreamTest, TheRestOfAFrameIsCutOffHoweverSteadilyItDrips) {
  constexpr auto kRest = 300ms;
  frame_ = ReceivedFrame(nullptr, kRest);
  const auto receive = [&] { return ReceiveFrame(receiver_.get(), std::nullopt, &frame_); };
  std::thread late([&] {
    std::this_thread::sleep_for(2 * kRest);
    Send(Frame(1, 10));
  });
  EXPECT_TRUE(receive().ok()) << "a frame that has not begun has no limit";
  late.join();

  const auto frame = Frame(2, 1000);
  std::atomic<bool> ended{false};
  std::thread drip([&] {
    Send(std::span(frame).first(sizeof(FrameHeader)));
    for (size_t sent = sizeof(FrameHeader); sent < frame.size() && !ended; ++sent) {
      std::this_thread::sleep_for(20ms);  // would be 20 s
      Send(std::span(frame).subspan(sent, 1));
    }
  });
  const TimePoint start = Clock::now();
  EXPECT_EQ(receive().code(), Code::kDeadlineExceeded);
  EXPECT_GE(Clock::now() - start, kRest);
  EXPECT_LT(Clock::now() - start, 10s);
  ended = true;
  drip.join();
}

TEST_F(StreamTest, TwoDescriptorsWithOneFrameAreRefused) {
  const auto frame = Frame(1, 20);
  Send(std::span(frame).first(30), STDERR_FILENO);
  Send(std::span(frame).subspan(30), STDERR_FILENO);
  EXPECT_EQ(Receive().code(), Code::kCorrupt);
}

TEST_F(StreamTest, AwaitAwakeReturnsWhenThereIsSomethingOrTheTimeIsOver) {
  const TimePoint start = Clock::now();
  AwaitAwake(receiver_.get(), start + 20ms);
  const bool waits = std::thread::hardware_concurrency() > 1;
  EXPECT_GE(Clock::now() - start, waits ? 20ms : 0ms);
  Send(Frame(1, 0));
  AwaitAwake(receiver_.get(), Clock::now() + 60s);
  EXPECT_LT(Clock::now() - start, 30s);
  ExpectFrame(1, 0);
}

// ---- who may listen

class ListenUnixTest : public ::testing::Test {
 protected:
  testing::TempDir folder_;
  const std::string path_ = folder_.path() + "/socket";
};

TEST_F(ListenUnixTest, TakesThePlaceOfAProcessThatHasEnded) {
  ASSERT_TRUE(ListenUnix(path_, 0600).ok());  // closed at once, and the file stays
  EXPECT_TRUE(ListenUnix(path_, 0600).ok());
}

// Also of one that is too busy to take connections.
TEST_F(ListenUnixTest, LeavesItToWhoListens) {
  const auto listener = ListenUnix(path_, 0600);
  ASSERT_TRUE(listener.ok());
  const auto is_taken = [&] {
    return ListenUnix(path_, 0600).status().message().find("already listening") !=
           std::string::npos;
  };
  EXPECT_TRUE(is_taken());
  std::vector<UniqueFd> waiting;
  for (auto fd = ConnectUnix(path_); fd.ok(); fd = ConnectUnix(path_))
    waiting.push_back(std::move(*fd));
  EXPECT_TRUE(is_taken());
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
}

TEST_F(ListenUnixTest, RemovesNothingButASocket) {
  std::ofstream(path_) << "somebody's notes";
  EXPECT_EQ(ListenUnix(path_, 0600).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace peercache
