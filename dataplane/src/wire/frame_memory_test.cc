#include "wire/frame_memory.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "wire/frame_buffer.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;

constexpr size_t kMiB = 1 << 20;

// A connection that asks for memory.
struct Asker {
  explicit Asker(FrameMemory* memory) : hold(memory) {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    ends = {UniqueFd(pair[0]), UniqueFd(pair[1])};
  }
  bool Ask(size_t bytes) { return hold.Ask(bytes, ends[0].get()); }
  bool CutOff() const {
    pollfd entry{ends[1].get(), POLLRDHUP, 0};
    return poll(&entry, 1, 0) == 1;
  }
  std::array<UniqueFd, 2> ends;
  FrameMemory::Hold hold;
};

std::vector<std::unique_ptr<Asker>> Askers(FrameMemory* memory, size_t count) {
  std::vector<std::unique_ptr<Asker>> askers;
  while (askers.size() < count) askers.push_back(std::make_unique<Asker>(memory));
  return askers;
}

TEST(FrameMemoryTest, WhoAsksIsServedInTheOrderOfComing) {
  FrameMemory memory(2 * kMiB);
  const auto askers = Askers(&memory, 4);
  EXPECT_TRUE(askers[0]->Ask(kMiB));
  EXPECT_TRUE(askers[1]->Ask(kMiB));
  EXPECT_FALSE(askers[2]->Ask(kMiB));
  EXPECT_FALSE(askers[3]->Ask(1)) << "it would fit, but others were first";
  EXPECT_EQ(memory.stats().held, 2 * kMiB);
  EXPECT_EQ(memory.stats().waiting, 2u);
  askers[0]->hold.Release();
  EXPECT_TRUE(askers[2]->hold.granted());
  EXPECT_FALSE(askers[3]->hold.granted());
  askers[1]->hold.Release();
  EXPECT_TRUE(askers[3]->hold.granted());
  const FrameMemoryStats stats = memory.stats();
  EXPECT_EQ(stats.held, kMiB + 1);
  EXPECT_EQ(stats.most, 2 * kMiB);
  EXPECT_EQ(stats.waited, 2u);
  EXPECT_EQ(stats.waiting, 0u);
}

TEST(FrameMemoryTest, LargeFramesLeaveRoomForSmallerOnes) {
  FrameMemory memory;
  const auto askers = Askers(&memory, 20);
  EXPECT_TRUE(askers[0]->Ask(kMaxBody + sizeof(FrameHeader))) << "one of any size fits";
  for (size_t i = 1; i < 10; ++i) EXPECT_FALSE(askers[i]->Ask(kMaxBody));
  for (size_t i = 10; i < 18; ++i) EXPECT_TRUE(askers[i]->Ask(kMiB));
  EXPECT_LE(memory.stats().held, FrameMemory::kLimit);
}

TEST(FrameMemoryTest, WhoIsSlowGivesWayToWhoWaits) {
  FrameMemory memory(kMiB);
  const auto askers = Askers(&memory, 3);
  ASSERT_TRUE(askers[0]->Ask(kMiB / 2));
  ASSERT_TRUE(askers[1]->Ask(kMiB / 2));
  askers[1]->hold.Whole();
  const TimePoint later = Clock::now() + FrameMemory::kGiveWay;
  memory.LookRound(later);
  EXPECT_FALSE(askers[0]->CutOff()) << "nobody waits";
  ASSERT_FALSE(askers[2]->Ask(kMiB / 2));
  memory.LookRound(Clock::now());
  EXPECT_FALSE(askers[0]->CutOff()) << "it has time";
  memory.LookRound(later);
  memory.LookRound(later);
  EXPECT_TRUE(askers[0]->CutOff());
  EXPECT_FALSE(askers[1]->CutOff()) << "its frame is there, and at work";
  EXPECT_EQ(memory.stats().cut_off, 1u);
  askers[0]->hold.Release();
  EXPECT_TRUE(askers[2]->hold.granted());
}

TEST(FrameMemoryTest, WhoWaitsNoMoreKeepsNobodyWaiting) {
  FrameMemory memory(kMiB);
  auto askers = Askers(&memory, 3);
  ASSERT_TRUE(askers[0]->Ask(kMiB / 2));
  ASSERT_FALSE(askers[1]->Ask(kMiB));
  ASSERT_FALSE(askers[2]->Ask(kMiB / 2));
  askers[1].reset();
  EXPECT_TRUE(askers[2]->hold.granted());
  askers.clear();
  EXPECT_EQ(memory.stats().held, 0u);
}

TEST(FrameMemoryTest, AnswersMayExceedTheBudget) {
  FrameMemory memory(kMiB);
  Asker asker(&memory);
  asker.hold.Take(2 * kMiB, asker.ends[0].get());
  EXPECT_TRUE(memory.over());
  memory.LookRound(Clock::now() + FrameMemory::kGiveWay);
  EXPECT_TRUE(asker.CutOff()) << "requests are not taken up meanwhile";
  asker.hold.Release();
  EXPECT_FALSE(memory.over());
}

TEST(FrameMemoryTest, AThreadThatWaitsIsWokenOrHearsOfTheEnd) {
  FrameMemory memory(kMiB);
  const auto askers = Askers(&memory, 3);
  ASSERT_TRUE(askers[0]->Ask(kMiB));
  askers[0]->hold.Whole();
  ASSERT_FALSE(askers[1]->Ask(kMiB));
  ASSERT_FALSE(askers[2]->Ask(kMiB));
  const TimePoint start = Clock::now();
  EXPECT_FALSE(askers[1]->hold.Await(start + 30ms)) << "the deadline";
  EXPECT_GE(Clock::now(), start + 30ms);
  askers[2]->ends[1].Reset();
  EXPECT_FALSE(askers[2]->hold.Await(start + 60s)) << "the other end is gone";
  std::thread releases([&] { askers[0]->hold.Release(); });
  EXPECT_TRUE(askers[1]->hold.Await(start + 60s));
  releases.join();
}

TEST(FrameBufferTest, ALargeFrameHasMemoryOfItsOwnAndGivesItBack) {
  FrameMemory memory;
  FrameBuffer buffer(&memory);
  size_t have = 0;
  const auto fill = [&](size_t frame) {
    while (have < frame) {
      if (buffer.full(have)) {
        ASSERT_TRUE(buffer.Ask(have, frame, -1));
        ASSERT_TRUE(buffer.Grow(have, frame));
      }
      const size_t end = std::min(frame, buffer.size());
      for (; have < end; ++have) buffer.data()[have] = std::byte(have * 7);
    }
  };
  fill(FrameMemory::kFree);
  EXPECT_EQ(memory.stats().held, 0u) << "every connection may have so much";
  fill(3 * kMiB);
  EXPECT_EQ(memory.stats().held, 3 * kMiB);
  for (size_t i = 0; i < have; i += 101) ASSERT_EQ(buffer.data()[i], std::byte(i * 7)) << i;
  buffer.Shrink(20'000);
  EXPECT_EQ(memory.stats().held, 0u);
  EXPECT_LE(buffer.size(), FrameMemory::kFree);
  for (size_t i = 0; i < 20'000; ++i) ASSERT_EQ(buffer.data()[i], std::byte(i * 7)) << i;
  buffer.Rest();
  EXPECT_EQ(buffer.size(), FrameBuffer::kFirst);
}

}  // namespace
}  // namespace peercache
