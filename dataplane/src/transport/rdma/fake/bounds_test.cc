// How long a batch may take, and what becomes of its queues: over paths that are slow or dead, and
// over a device that does not give up what it has under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/patience_testing.h"
#include "base/wrong_bytes.h"
#include "transport/rdma/fake/fake_testing.h"

namespace peercache::rdma {
namespace {

using ::testing::Contains;
using ::testing::Each;

constexpr uint32_t kPage = 1 << 20;
constexpr size_t kPages = 64;
// For what takes a moment, on a machine that has other things to do.
constexpr Duration kLong = peercache::testing::kEndsAHang;
// The call is not waited for by what has its own bound.
constexpr Duration kPosting = milliseconds(400), kStall = milliseconds(1000), kCall = kLong;

class BoundsTest : public ::testing::Test {
 protected:
  BoundsTest() {
    fake.Reset();
    rails = FakeRails(2);
    holder = std::make_unique<TestHolder>(rails.get(), kPages * (kPage + 128));
    reader = std::make_unique<TestReader>(rails.get(), kPages * kPage);
    for (size_t i = 0; i < kPages; ++i) {
      places.push_back(reader->bytes().subspan(i * kPage, kPage));
      pages.push_back(holder->Put(kPage));
    }
    for (size_t i = 0; i < kPages; ++i) pages[i].to = std::span(&places[i], 1);
    auto made = Connect(*rails, holder.get(), *reader);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    connection = std::move(*made);
    ranges = reader->registered.ranges();
  }
  ~BoundsTest() override { fake.LetGo(); }  // or what failed would wait for ever

  ReadChannel& channel() { return *connection.channel; }
  // Of the rail's queue pair here, which was made before those of the holder.
  uint32_t QueuePair(size_t rail) { return connection.channel->request().queues[rail].queue; }

  void Begin(size_t count, Duration stall = kStall) {
    states.assign(count, PageState::kPending);
    channel().Begin(std::span(pages).first(count), *ranges, reader->headers().first(2 * count),
                    states, stall, Clock::now());
  }
  Duration Run(Duration posting = kPosting, Duration call = kCall) {
    const TimePoint start = Clock::now();
    const RunningRead running{&channel(), -1};
    RunReads(std::span(&running, 1), {start + call, {}, start + posting});
    return Clock::now() - start;
  }
  size_t Count(PageState state) const {
    return static_cast<size_t>(std::count(states.begin(), states.end(), state));
  }
  bool HasBytes(size_t page) const {
    const auto payload = holder->Payload(pages[page]);
    return HasRightBytes(std::to_string(page), places[page], payload);
  }

  FakeVerbs& fake = FakeVerbs::Get();
  std::unique_ptr<Rails> rails;
  std::unique_ptr<TestHolder> holder;
  std::unique_ptr<TestReader> reader;
  std::vector<Bytes> places;
  std::vector<PageRead> pages;
  TestConnection connection;
  std::shared_ptr<const RegisteredMemory::Ranges> ranges;
  std::vector<PageState> states;
};

// 64 MiB over two rails of 20 MiB/s: what has time to come comes, and the link stays.
TEST_F(BoundsTest, ASlowPathKeepsItsQueues) {
  fake.bytes_per_second = 20 << 20;
  Begin(kPages);
  const Duration took = Run();
  EXPECT_EQ(channel().queues(), 2u);
  EXPECT_EQ(channel().lost_rails(), 0u);
  EXPECT_LT(took, kCall / 2);
  EXPECT_GT(Count(PageState::kRead), 0u);
  EXPECT_GT(Count(PageState::kFailed), 0u);
  for (size_t i = 0; i < kPages; ++i) {
    if (states[i] == PageState::kRead) {
      EXPECT_TRUE(HasBytes(i)) << i;
    }
  }
  EXPECT_EQ(fake.under_way(), 0u) << "it would land later";
  fake.bytes_per_second = 0;
  Begin(kPages);
  Run(kLong, kLong);
  EXPECT_THAT(states, Each(PageState::kRead)) << "the same queues serve the next call";
}

TEST_F(BoundsTest, APathThatBringsNothingIsGivenUpBeforeTheCallEnds) {
  fake.brings = false;
  Begin(8);
  const Duration took = Run();
  EXPECT_GE(took, kStall);
  EXPECT_LT(took, kCall / 2);
  EXPECT_THAT(states, Each(PageState::kFailed));
  EXPECT_EQ(channel().lost_rails(), 3u);
}

TEST_F(BoundsTest, ACallThatEndsTakesItsQueuesAlong) {
  fake.bytes_per_second = 20 << 20;
  Begin(kPages, kLong);
  EXPECT_LT(Run(milliseconds(100), milliseconds(100)), kLong);
  EXPECT_EQ(fake.under_way(), 0u);
  EXPECT_THAT(states, Contains(PageState::kFailed));
  EXPECT_EQ(channel().queues(), 0u);
}

// The device goes on writing into the destinations of a pair that was stopped: nobody gets them
// back before the kernel has destroyed the pair.
TEST_F(BoundsTest, DestinationsAreNotGivenBackBeforeTheDeviceLetsGo) {
  fake.brings = false;
  fake.holds_on = QueuePair(0);
  Begin(4);
  std::atomic<bool> returned{false};
  std::thread call([&] {
    Run(milliseconds(100), milliseconds(300));
    returned = true;
  });
  const TimePoint end = Clock::now() + kLong;
  while (fake.destroyed() == 0 && Clock::now() < end) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(fake.destroyed(), 1u) << "the other rail's";
  // Longer than the call may take, and than flushing may.
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_FALSE(returned);
  EXPECT_GT(fake.under_way(), 0u);
  fake.LetGo();
  call.join();
  EXPECT_EQ(fake.under_way(), 0u);
  EXPECT_THAT(states, Each(PageState::kFailed)) << "what it brought late does not count";
  rails->Drain();
  EXPECT_EQ(fake.destroyed(), 2u);
}

// One rail's device holds on to what it has; the pages of the other one come meanwhile.
TEST_F(BoundsTest, ARailThatDoesNotLetGoHoldsUpNoOther) {
  fake.bytes_per_second = 40 << 20;
  Begin(kPages, kLong);
  fake.holds_on = QueuePair(0);
  // As a rail that went down.
  RailTesting::Down(&(*rails)[0]);
  const TimePoint end = Clock::now() + kLong;
  bool held = true;
  while (!channel().done() && Clock::now() < end) {
    channel().Advance(Clock::now());
    // More than the rail had under way when the other one went down.
    if (held && Count(PageState::kRead) > 8) {
      held = false;
      fake.LetGo();
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_FALSE(held) << "the other rail was held up";
  EXPECT_THAT(states, Each(PageState::kRead));
  for (size_t i = 0; i < kPages; ++i) EXPECT_TRUE(HasBytes(i)) << i;
  EXPECT_EQ(channel().lost_rails(), 1u);
}

}  // namespace
}  // namespace peercache::rdma
