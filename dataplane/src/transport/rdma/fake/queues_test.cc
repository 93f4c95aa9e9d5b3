// A rail with several queue pairs towards a peer: which they are, and what is lost with one of
// them. What they bring together: modelled_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/wrong_bytes.h"
#include "transport/rdma/fake/fake_testing.h"

namespace peercache::rdma {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

constexpr uint32_t kPage = 256 << 10;
constexpr size_t kPages = 64;
constexpr Duration kLong = std::chrono::seconds(30);

class QueuesTest : public ::testing::Test {
 protected:
  QueuesTest() { fake.Reset(); }
  void Connected(size_t count, uint32_t queues) {
    rails = FakeRails(count, {.queues = queues});
    holder = std::make_unique<TestHolder>(rails.get(), kPages * (kPage + 4096));
    reader = std::make_unique<TestReader>(rails.get(), kPages * kPage);
    for (size_t i = 0; i < kPages; ++i) {
      places.push_back(reader->bytes().subspan(i * kPage, kPage));
      pages.push_back(holder->Put(kPage));
    }
    for (size_t i = 0; i < kPages; ++i) pages[i].to = std::span(&places[i], 1);
    auto made = Connect(*rails, holder.get(), *reader);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    connection = std::move(*made);
  }
  ReadChannel& channel() { return *connection.channel; }
  void Read() { states = ReadAll(&channel(), *reader, pages, kLong); }
  void ExpectAllRead() {
    EXPECT_THAT(states, Each(PageState::kRead));
    for (size_t i = 0; i < kPages; ++i) {
      const auto payload = holder->Payload(pages[i]);
      EXPECT_TRUE(HasRightBytes(std::to_string(i), places[i], payload));
    }
  }

  FakeVerbs& fake = FakeVerbs::Get();
  std::unique_ptr<Rails> rails;
  std::unique_ptr<TestHolder> holder;
  std::unique_ptr<TestReader> reader;
  std::vector<Bytes> places;
  std::vector<PageRead> pages;
  TestConnection connection;
  std::vector<PageState> states;
};

TEST_F(QueuesTest, TheFirstOfEachRailComeFirst) {
  Connected(3, 2);
  const ConnectRequest request = channel().request();
  ASSERT_THAT(request.queues, SizeIs(6));
  EXPECT_EQ(rails->queues(), 6u);
  EXPECT_EQ(channel().working_rails(), 7u);
  EXPECT_EQ(channel().whole_rails(), 7u);
}

TEST_F(QueuesTest, ARailIsLostWithItsLastQueue) {
  Connected(1, 2);
  fake.good_reads = 10;
  Read();
  ExpectAllRead();
  EXPECT_EQ(channel().queues(), 1u);
  EXPECT_EQ(channel().lost_rails(), 0u);
  EXPECT_EQ(channel().working_rails(), 1u);
  EXPECT_EQ(channel().whole_rails(), 0u) << "it is made anew";
  fake.good_reads = 10;
  Read();
  EXPECT_EQ(channel().queues(), 0u);
  EXPECT_EQ(channel().lost_rails(), 1u);
  EXPECT_EQ(channel().working_rails(), 0u);
}

// So its checksum can be compared while others are on their way.
TEST_F(QueuesTest, AWholePageIsSeenBeforeTheLastOneComes) {
  Connected(2, 1);
  fake.bytes_per_second = 32 << 20;
  states.assign(kPages, PageState::kPending);
  const auto ranges = reader->registered.ranges();
  channel().Begin(pages, *ranges, reader->headers().first(2 * kPages), states, kLong, Clock::now());
  const RunningRead running{&channel(), -1};
  std::vector<bool> looked(kPages);
  size_t early = 0;
  const auto look = [&] {
    EXPECT_FALSE(channel().done());
    for (size_t i = 0; i < kPages; ++i) {
      if (states[i] != PageState::kRead || looked[i]) continue;
      looked[i] = true;
      ++early;
      const auto payload = holder->Payload(pages[i]);
      EXPECT_TRUE(HasRightBytes(std::to_string(i), places[i], payload));
      return true;
    }
    return false;
  };
  RunReads(std::span(&running, 1), {Clock::now() + kLong, {}, TimePoint::max(), look});
  EXPECT_GT(early, 0u);
  ExpectAllRead();
}

TEST_F(QueuesTest, ManyRailsHaveFewerEach) {
  Connected(12, 4);
  EXPECT_EQ(channel().queues(), 24u);
  EXPECT_EQ(channel().whole_rails(), (1u << 12) - 1);
  Read();
  ExpectAllRead();
}

}  // namespace
}  // namespace peercache::rdma
