// Many holders' pages come over one port: what is under way there stays within the rail's budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/wrong_bytes.h"
#include "transport/rdma/fake/fake_testing.h"

namespace peercache::rdma {
namespace {

using ::testing::Each;

constexpr Duration kLong = std::chrono::seconds(30);
// The budget, with room for headers. Without one it is all that these tests read, 32 MiB and more.
constexpr uint64_t kMost = RailBudget::kBytes * 3 / 2;

// Holders of one machine, each with its pages, and their links to the reader.
class IncastTest : public ::testing::Test {
 protected:
  IncastTest() {
    fake.Reset();
    rails = FakeRails(1);
  }
  struct Peer {
    std::unique_ptr<TestHolder> holder;
    std::vector<PageRead> pages;
    std::vector<Bytes> places;
    TestConnection connection;
    std::vector<PageState> states;
  };
  void Connected(size_t holders, size_t pages, uint32_t length) {
    reader = std::make_unique<TestReader>(rails.get(), holders * pages * length);
    ranges = reader->registered.ranges();
    for (size_t h = 0; h < holders; ++h) {
      Peer peer;
      peer.holder = std::make_unique<TestHolder>(rails.get(), pages * (length + 4096));
      for (size_t i = 0; i < pages; ++i) {
        peer.pages.push_back(peer.holder->Put(length));
        peer.places.push_back(reader->bytes().subspan((h * pages + i) * length, length));
      }
      for (size_t i = 0; i < pages; ++i) peer.pages[i].to = std::span(&peer.places[i], 1);
      auto made = Connect(*rails, peer.holder.get(), *reader);
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      peer.connection = std::move(*made);
      peers.push_back(std::move(peer));
    }
  }
  // A call that reads all pages of these peers; `headers` are its own.
  void Read(std::span<Peer> of, std::span<SlotHeader> headers, Duration within = kLong) {
    std::vector<RunningRead> running;
    for (Peer& peer : of) {
      const size_t count = peer.pages.size();
      peer.states.assign(count, PageState::kPending);
      peer.connection.channel->Begin(peer.pages, *ranges, headers.first(2 * count), peer.states,
                                     kLong, Clock::now());
      headers = headers.subspan(2 * count);
      running.push_back({peer.connection.channel.get(), -1});
    }
    RunReads(running, {Clock::now() + within, {}, Clock::now() + within / 2});
  }
  void ExpectAllRead() {
    for (const Peer& peer : peers) {
      EXPECT_THAT(peer.states, Each(PageState::kRead));
      for (size_t i = 0; i < peer.pages.size(); ++i) {
        const auto payload = peer.holder->Payload(peer.pages[i]);
        EXPECT_TRUE(HasRightBytes(std::to_string(i), peer.places[i], payload));
      }
    }
  }
  RailBudget& budget() { return (*rails)[0].budget(); }

  FakeVerbs& fake = FakeVerbs::Get();
  std::unique_ptr<Rails> rails;
  std::unique_ptr<TestReader> reader;
  std::shared_ptr<const RegisteredMemory::Ranges> ranges;
  std::vector<Peer> peers;
};

TEST_F(IncastTest, OneCallAsksAPortForNoMoreThanItCarries) {
  fake.bytes_per_second = 512 << 20;  // of each queue pair
  Connected(16, 8, 256 << 10);
  Read(peers, reader->headers());
  ExpectAllRead();
  EXPECT_LE(fake.peak_bytes(), kMost);
  EXPECT_GE(fake.peak_bytes(), RailBudget::kBytes - (256 << 10))
      << "the port is not used as it could be";
  EXPECT_EQ(budget().taken(), 0u);
}

TEST_F(IncastTest, NorDoManyCalls) {
  fake.bytes_per_second = 512 << 20;
  Connected(32, 8, 256 << 10);
  std::vector<std::thread> calls;
  constexpr size_t kEach = 4;
  for (size_t first = 0; first < peers.size(); first += kEach) {
    calls.emplace_back([this, first] {
      Read(std::span(peers).subspan(first, kEach), reader->headers().subspan(2 * 8 * first));
    });
  }
  for (auto& call : calls) call.join();
  ExpectAllRead();
  EXPECT_LE(fake.peak_bytes(), kMost);
  EXPECT_EQ(budget().taken(), 0u);
}

TEST_F(IncastTest, WhoGivesUpLeavesTheLine) {
  Connected(12, 2, 1 << 20);
  fake.brings = false;
  Read(peers, reader->headers(), milliseconds(100));
  EXPECT_EQ(budget().taken(), 0u);
  for (const Peer& peer : peers) EXPECT_THAT(peer.states, Each(PageState::kFailed));
}

}  // namespace
}  // namespace peercache::rdma
