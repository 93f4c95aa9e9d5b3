// A reader whose machine is paused in the middle of a READ, and its clock with it, gets the page
// that it asked for or none. docs/dev/protocol.md, "Clocks that stand still".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "pool/pool_testing.h"
#include "transport/rdma/fake/fake_testing.h"

namespace peercache::rdma {
namespace {

using ::testing::Each;

constexpr size_t kPages = 24;

class StoppedReaderTest : public ::testing::Test {
 protected:
  StoppedReaderTest() {
    fake.Reset();
    auto made = Pool::Create({.bytes = 128 * kMiB, .huge_pages = HugePages::kOff});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    pool = std::move(*made);
  }
  // Of a reader and a holder with so many rails: pages of this length, and where they are read
  // into.
  void Connected(size_t count, size_t length, int queue = 0) {
    rails = FakeRails(count);
    if (queue > 0)
      RailTesting::Limit(*rails, [queue](ibv_device_attr* limits) { limits->max_qp_wr = queue; });
    const auto registered = holder.Register("pool", pool->memory().bytes(), *rails,
                                            Registration::For::kRemoteRead, nullptr);
    ASSERT_TRUE(registered.ok()) << registered.status().ToString();
    acceptor = std::make_unique<Acceptor>(rails.get(), &holder, pool->memory().bytes(), 4096);
    reader = std::make_unique<TestReader>(rails.get(), kPages * length);
    for (size_t i = 0; i < kPages; ++i) {
      places.push_back(reader->bytes().subspan(i * length, length));
      auto reservation = pool->Reserve(length);
      ASSERT_TRUE(reservation.ok());
      peercache::Fill(reservation->payload(), KeyOf(i));
      const PagePin pin = pool->Commit(std::move(*reservation), KeyOf(i), 1, 0, nullptr);
      pages.push_back({.key = KeyOf(i),
                       .offset = pin.offset(),
                       .generation = pin.header().generation,
                       .length = static_cast<uint32_t>(length),
                       .to = {}});
    }
    for (size_t i = 0; i < kPages; ++i) pages[i].to = std::span(&places[i], 1);
    auto connected = Connect(*rails, acceptor.get(), *reader, [](ConnectOk*) {});
    ASSERT_TRUE(connected.ok()) << connected.status().ToString();
    connection = std::move(*connected);
    ranges = reader->registered.ranges();
  }
  void Begin() {
    states.assign(kPages, PageState::kPending);
    connection.channel->Begin(pages, *ranges, reader->headers().first(2 * kPages), states,
                              std::chrono::seconds(20), Clock::now());
  }
  void GoOn() {
    const RunningRead running{connection.channel.get(), -1};
    RunReads(std::span(&running, 1), {Clock::now() + std::chrono::seconds(20), {}});
  }
  // All pages go, rest, and are written over with pages of `length`, of which those parts come last
  // where the headers of the former ones are.
  void EvictAndRewrite(size_t length) {
    const TimePoint now = Clock::now();
    for (const Victim& victim : pool->TakeVictims(pool->size(), pages[0].length))
      pool->Quarantine(victim, now);
    ASSERT_GT(pool->Reclaim(now + milliseconds(1)), 0u);
    std::vector<SlotHeader> headers(kPages);
    for (size_t i = 0; i < kPages; ++i)
      std::memcpy(&headers[i], pool->base() + pages[i].offset, sizeof(SlotHeader));
    for (auto slot = pool->Reserve(length); slot.ok(); slot = pool->Reserve(length)) {
      const auto payload = slot->payload();
      std::memset(payload.data(), 0xee, payload.size());
      const auto begin = static_cast<uint64_t>(payload.data() - pool->base());
      for (size_t i = 0; i < kPages; ++i) {
        const uint64_t first = std::max(begin, pages[i].offset);
        const uint64_t last =
            std::min(begin + payload.size(), pages[i].offset + sizeof(SlotHeader));
        if (first < last)
          std::memcpy(pool->base() + first,
                      reinterpret_cast<const std::byte*>(&headers[i]) + (first - pages[i].offset),
                      last - first);
      }
      written.push_back(std::move(*slot));
    }
    ASSERT_FALSE(written.empty());
  }
  void ExpectNoWrongBytes() const {
    for (size_t i = 0; i < kPages; ++i) {
      if (states[i] != PageState::kRead) continue;
      std::vector<std::byte> want(pages[i].length);
      peercache::Fill(want, pages[i].key);
      EXPECT_TRUE(HasRightBytes("page " + std::to_string(i), places[i], want));
    }
  }

  FakeVerbs& fake = FakeVerbs::Get();
  std::unique_ptr<Pool> pool;
  std::unique_ptr<Rails> rails;
  RegisteredMemory holder;
  std::unique_ptr<Acceptor> acceptor;
  std::unique_ptr<TestReader> reader;
  std::vector<Bytes> places;
  std::vector<PageRead> pages;
  TestConnection connection;
  std::shared_ptr<const RegisteredMemory::Ranges> ranges;
  std::vector<PageState> states;
  std::vector<Reservation> written;
};

struct Rewritten {
  const char* name;
  size_t rails, length, by;
  int queue = 0;  // READs that the device takes at once; 0: as many as it has
};
class PausedInTheMiddle : public StoppedReaderTest,
                          public ::testing::WithParamInterface<Rewritten> {};

TEST_P(PausedInTheMiddle, GetsNoBytesOfAnotherPage) {
  const Rewritten& with = GetParam();
  Connected(with.rails, with.length, with.queue);
  fake.early_bytes = std::min<size_t>(with.length / 2, 100'000);
  Begin();
  EvictAndRewrite(with.by);  // no time passes here
  GoOn();
  ExpectNoWrongBytes();
  EXPECT_THAT(states, Each(PageState::kStale));
}
INSTANTIATE_TEST_SUITE_P(Pages, PausedInTheMiddle,
                         ::testing::Values(Rewritten{"OfTheSameSize", 1, 64 * kKiB, 64 * kKiB},
                                           Rewritten{"InLargerOnes", 1, 64 * kKiB, kMiB},
                                           Rewritten{"InSmallerOnes", 1, 64 * kKiB, 5 * kKiB},
                                           Rewritten{"OverTwoRails", 2, 64 * kKiB, kMiB},
                                           Rewritten{"InPiecesOverTwoRails", 2, 3 * kMiB, 7 * kMiB},
                                           Rewritten{"OverAShortQueue", 1, 64 * kKiB, kMiB, 4},
                                           Rewritten{"OneByOne", 1, 64 * kKiB, kMiB, 1}),
                         [](const auto& test) { return test.param.name; });

TEST_F(StoppedReaderTest, GetsWhatIsStillThere) {
  Connected(2, 64 * kKiB);
  fake.early_bytes = 1000;
  Begin();
  // Out of service, and resting: readers may have their records.
  for (const Victim& victim : pool->TakeVictims(pool->size(), 64 * kKiB))
    pool->Quarantine(victim, Clock::now() + std::chrono::hours(1));
  (void)pool->Reclaim(Clock::now());
  GoOn();
  ExpectNoWrongBytes();
  EXPECT_THAT(states, Each(PageState::kRead));
}

TEST_F(StoppedReaderTest, GetsAllOverTheOtherRailWhenOneFails) {
  Connected(2, 64 * kKiB);
  fake.early_bytes = 1000;
  fake.good_reads = kPages / 2 + 1;  // so that a header fails or its page
  Begin();
  GoOn();
  ExpectNoWrongBytes();
  EXPECT_THAT(states, Each(PageState::kRead));
  EXPECT_EQ(connection.channel->queues(), 1u);
}

TEST_F(StoppedReaderTest, HeadersOfABatchTakeNoDoorbellOfTheirOwn) {
  Connected(1, 64 * kKiB);
  const size_t before = fake.doorbells();
  Begin();
  GoOn();
  EXPECT_THAT(states, Each(PageState::kRead));
  EXPECT_EQ(fake.doorbells() - before, 1u);
}

}  // namespace
}  // namespace peercache::rdma
