// The window of `peercache-bench ladder` beside batches of the same READs, in virtual time.
#include "bench/perf/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "transport/rdma/fake/fake_testing.h"
#include "transport/rdma/fake/network.h"
#include "transport/rdma/fake/virtual_clock.h"

namespace peercache::rdma {
namespace {

using perf::Window;
using ::testing::HasSubstr;

constexpr size_t kPages = 64;
constexpr uint32_t kPage = 64 << 10;
constexpr Duration kWarmUp = milliseconds(1), kMeasured = milliseconds(4);

// A batch of these READs takes the queue pair 105 us, and waits twice for 40.
NetworkModel LongPath() {
  NetworkModel model;
  model.round_trip = std::chrono::microseconds(40);
  model.reads_at_once = 128;
  return model;
}

class WindowTest : public ::testing::Test {
 protected:
  WindowTest() {
    fake.Reset();
    rails = FakeRails(1, {.queues = 1});
    holder_rails = FakeRails(1, {}, 2);
    holder = std::make_unique<TestHolder>(holder_rails.get(), kPages * (kPage + 4096));
    reader = std::make_unique<TestReader>(rails.get(), 2 * kPages * kPage);
    ranges = reader->registered.ranges();
    for (size_t i = 0; i < kPages; ++i) pages.push_back(holder->Put(kPage));
    pages.insert(pages.end(), pages.begin(), pages.end());
    for (size_t i = 0; i < 2 * kPages; ++i)
      places.push_back(reader->bytes().subspan(i * kPage, kPage));
    for (size_t i = 0; i < 2 * kPages; ++i) pages[i].to = std::span(&places[i], 1);
  }
  ~WindowTest() override { fake.network = nullptr; }

  std::span<SlotHeader> headers() const { return reader->headers().first(4 * kPages); }
  Acceptor::Queues Connected(Window* window) {
    ConnectOk answer;
    auto queues = AcceptNow(&holder->acceptor(), window->request(), &answer);
    EXPECT_TRUE(queues.ok()) << queues.status().ToString();
    const Status connected = window->Connect(answer);
    EXPECT_TRUE(connected.ok()) << connected.ToString();
    return std::move(*queues);
  }

  struct Brought {
    double bytes_per_second = 0;
    size_t least = SIZE_MAX;  // READs under way at once
  };
  // What comes while `step` is called whenever something can have come. It says whether it moved
  // anything.
  template <typename Step>
  Brought Run(const Step& step) {
    FakeNetwork& network = *networks.emplace_back(std::make_unique<FakeNetwork>(LongPath()));
    fake.network = &network;
    fake.most_landed = sizeof(SlotHeader);
    testing::VirtualClock clock;
    const TimePoint from = Clock::now() + kWarmUp, end = from + kMeasured;
    uint64_t before = 0;
    Brought brought;
    for (TimePoint now = Clock::now(); now < end;) {
      if (now < from) before = network.port(1).taken;
      if (step(now)) {
        if (now >= from) brought.least = std::min(brought.least, fake.under_way());
        continue;
      }
      now = network.Next();
      clock.Set(now);
      network.Advance(now);
    }
    fake.network = nullptr;
    brought.bytes_per_second =
        static_cast<double>(network.port(1).taken - before) / ToSeconds(kMeasured);
    return brought;
  }
  Brought InBatches() {
    auto made = Connect(*rails, holder.get(), *reader);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    ReadChannel& channel = *made->channel;
    std::vector<PageState> states(kPages, PageState::kRead);
    return Run([&](TimePoint now) {
      if (!channel.done()) return channel.Advance(now);
      EXPECT_EQ(std::count(states.begin(), states.end(), PageState::kRead), kPages);
      channel.Begin(std::span(pages).first(kPages), *ranges, headers(), states, milliseconds(100),
                    now);
      return true;
    });
  }

  FakeVerbs& fake = FakeVerbs::Get();
  std::vector<std::unique_ptr<FakeNetwork>> networks;  // each run's
  std::unique_ptr<Rails> rails, holder_rails;
  std::unique_ptr<TestHolder> holder;
  std::unique_ptr<TestReader> reader;
  std::shared_ptr<const RegisteredMemory::Ranges> ranges;
  std::vector<Bytes> places;
  std::vector<PageRead> pages;  // each twice: for as many under way, a window has two places each
};

TEST_F(WindowTest, IsFullWhereBatchesPause) {
  const Brought batches = InBatches();
  auto window = Window::Make(*rails);
  ASSERT_TRUE(window.ok()) << window.status().ToString();
  const auto queues = Connected(window->get());
  (*window)->Use(pages, ranges.get(), headers(), [](PageRead*) {});
  bool begun = false;
  const Brought full = Run([&](TimePoint) {
    const bool moved = begun ? (*window)->Advance() : true;
    if (!std::exchange(begun, true)) (*window)->Begin(100'000);
    EXPECT_TRUE((*window)->status().ok()) << (*window)->status().ToString();
    EXPECT_EQ((*window)->reading(), kPages);
    return moved;
  });
  EXPECT_GE(full.bytes_per_second, 0.95 * LongPath().queue_bytes_per_second);
  EXPECT_LE(batches.bytes_per_second, 0.65 * LongPath().queue_bytes_per_second);
  EXPECT_EQ(batches.least, 0u);
  EXPECT_GE(full.least, kPages);
}

TEST_F(WindowTest, ReadsAsManyAsItWasToldAndEachFromAnotherSlot) {
  auto window = Window::Make(*rails);
  ASSERT_TRUE(window.ok()) << window.status().ToString();
  const auto queues = Connected(window->get());
  size_t asked = 0;
  std::vector<PageRead> few(pages.begin(), pages.begin() + 4);
  (*window)->Use(few, ranges.get(), headers(), [&](PageRead* page) {
    const PageRead& next = pages[asked++ % kPages];
    page->key = next.key;
    page->offset = next.offset;
    page->generation = next.generation;
  });
  for (const uint64_t count : {1u, 3u, 130u}) {
    asked = 0;
    for ((*window)->Begin(count); !(*window)->done();) (*window)->Advance();
    EXPECT_TRUE((*window)->status().ok()) << (*window)->status().ToString();
    EXPECT_EQ(asked, count);
    EXPECT_EQ((*window)->took().size(), count);
  }
}

TEST_F(WindowTest, DoesWithoutQueuePairsThatThePeerDoesNotAnswer) {
  const auto several = FakeRails(2, {.queues = 2}, 3);
  for (const size_t answered : {3u, 1u, 0u}) {
    auto window = Window::Make(*several);
    ASSERT_TRUE(window.ok()) << window.status().ToString();
    ConnectOk answer;
    const auto queues = AcceptNow(&holder->acceptor(), (*window)->request(), &answer);
    ASSERT_TRUE(queues.ok()) << queues.status().ToString();
    ASSERT_EQ(answer.queues.size(), 4u);
    for (size_t i = answered; i < 4; ++i) answer.queues[i].queue.queue = 0;
    EXPECT_EQ((*window)->Connect(answer).ok(), answered > 0);
    EXPECT_EQ((*window)->queues(), answered);
    EXPECT_EQ((*window)->rails(), std::min<size_t>(answered, 2));
  }
}

TEST_F(WindowTest, AnotherPageAndAFailedReadAreErrors) {
  for (const bool failed : {false, true}) {
    std::vector<PageRead> asked = pages;
    auto window = Window::Make(*rails);
    ASSERT_TRUE(window.ok()) << window.status().ToString();
    const auto queues = Connected(window->get());
    (*window)->Use(asked, ranges.get(), headers(),
                   [&](PageRead* page) { page->generation += failed ? 0 : 1; });
    fake.good_reads = failed ? 10 : FakeVerbs::kAll;
    for ((*window)->Begin(1000); !(*window)->done();) (*window)->Advance();
    EXPECT_THAT((*window)->status().ToString(),
                HasSubstr(failed ? "a READ failed" : "a READ found another page"));
  }
}

}  // namespace
}  // namespace peercache::rdma
