// RemoteReader against a real holder that answers late, wrongly, or in several exchanges.
#include "node/read/remote_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/checksum.h"
#include "node/read/tcp_reader.h"
#include "pool/pool_testing.h"
#include "transport/tcp/read_testing.h"
#include "transport/tcp/server.h"

namespace peercache {
namespace {

constexpr size_t kPage = 64 * kKiB;
constexpr milliseconds kStall{3000};
const Hello kReader{"test", "", 1, 1};

class Holder : public PeerService {
 public:
  explicit Holder(std::string id = "holder")
      : node_(NodeHash(id)), id_(std::move(id)), pool_(MakePool(128 * kMiB)) {
    auto listener = Listen("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok());
    server_ = std::make_unique<TcpServer>(std::move(*listener), this, TcpServerOptions{});
  }
  Status OnHello(const Hello&, Greeting* answer) override {
    *answer = {{node_, 7}};
    return {};
  }
  Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override {
    ReadRequest request;
    if (!request.Decode(&body)) return Corrupt("malformed Read");
    ++exchanges;
    std::this_thread::sleep_for(delay.load());
    testing::AnswerRead(pool_.get(), request, header.request_id, answer);
    return {};
  }
  Record Add(uint64_t number) {
    const PagePin pin = Put(*pool_, number, kPage);
    Record record;
    record.node = node_;
    record.incarnation = 7;
    record.offset = pin.offset();
    record.generation = pin.header().generation;
    record.length = kPage;
    record.lease_ms = lease_ms;
    record.checksum = Checksum(pin.payload());
    return record;
  }
  Member member() const {
    Member member;
    member.id = id_;
    member.incarnation = 7;
    member.host = "127.0.0.1";
    member.peer_port = server_->port();
    return member;
  }

  std::atomic<milliseconds> delay{milliseconds(0)};
  std::atomic<int> exchanges{0};
  uint16_t lease_ms = 10'000;  // of its records

 private:
  const uint64_t node_;
  const std::string id_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<TcpServer> server_;
};

struct Fixture {
  explicit Fixture(size_t count, ChecksumPolicy verify = ChecksumPolicy::kAll,
                   milliseconds lease = milliseconds(10'000), unsigned helpers = 0)
      : crew(helpers),
        peers(kReader, secret.get(), OwnerTimes{}),
        memory(count * kPage),
        outcomes(count) {
    View view;
    for (const Member& member : {holder.member(), other.member()}) {
      view.by_node[NodeHash(member.id)] = view.members.size();
      view.members.push_back(member);
    }
    peers.Update(view);
    tcp = std::make_unique<TcpReader>(TcpReaderOptions{lease, kStall}, &peers);
    reader = std::make_unique<RemoteReader>(std::vector<PageReader*>{tcp.get()}, verify, &counters,
                                            &crew);
    for (size_t i = 0; i < count; ++i) {
      pages.push_back({KeyOf(i), holder.Add(i), i, TimePoint::max()});
      segments.push_back(std::span(memory).subspan(i * kPage, kPage));
    }
  }
  void Read() { reader->Read(pages, {segments, 1}, outcomes, Clock::now() + milliseconds(20'000)); }
  size_t Count(ReadOutcome outcome) const {
    return static_cast<size_t>(std::count(outcomes.begin(), outcomes.end(), outcome));
  }
  // From now on every other page is at the other holder.
  void Share() {
    for (size_t i = 1; i < pages.size(); i += 2) pages[i].record = other.Add(i);
  }
  Holder holder, other{"other"};
  Crew crew;
  std::unique_ptr<Secret> secret = Secret::None();
  Peers peers;
  Counters counters;
  std::vector<std::byte> memory;
  std::vector<Bytes> segments;
  std::vector<RemotePage> pages;
  std::vector<ReadOutcome> outcomes;
  std::unique_ptr<TcpReader> tcp;
  std::unique_ptr<RemoteReader> reader;
};

TEST(RemoteReaderTest, LargeReadsAreSeveralExchanges) {
  Fixture f(1100);  // 68 MiB
  f.Read();
  ASSERT_EQ(f.Count(ReadOutcome::kRead), 1100u);
  EXPECT_EQ(f.holder.exchanges, 3);
  for (size_t i = 0; i < 1100; ++i) ASSERT_TRUE(IsPageOf(f.segments[i], KeyOf(i)));
  EXPECT_EQ(f.counters.verified, 1100u);
}

TEST(RemoteReaderTest, WhatIsLargeIsReadInPartsByAllWhoAreFree) {
  for (const auto& [count, parts] : {std::pair{1100, 3}, {31, 1}, {32, 2}, {1, 1}}) {
    Fixture f(static_cast<size_t>(count), ChecksumPolicy::kAll, milliseconds(10'000), 2);
    f.Read();
    ASSERT_EQ(f.Count(ReadOutcome::kRead), static_cast<size_t>(count));
    EXPECT_EQ(f.holder.exchanges, parts) << count;
    for (size_t i = 0; i < f.segments.size(); ++i) ASSERT_TRUE(IsPageOf(f.segments[i], KeyOf(i)));
  }
}

TEST(RemoteReaderTest, BytesThatComeAfterTheLeaseDoNotCount) {
  Fixture f(4, ChecksumPolicy::kAll, milliseconds(500));
  f.holder.delay = milliseconds(600);
  f.Read();
  EXPECT_EQ(f.Count(ReadOutcome::kExpired), 4u);
  f.holder.delay = milliseconds(0);
  f.Read();
  EXPECT_EQ(f.Count(ReadOutcome::kRead), 4u);
}

// While a cluster's lease is being changed, the holder may let slots rest for less than the reader
// was told to count on.
// Each page for itself: those that have come are hits, though the call lasts longer than a lease,
// waiting for others. With a helper the other holder's pages are a part of their own.
TEST(RemoteReaderTest, AHolderThatStallsCostsNoPagesButItsOwn) {
  for (const unsigned helpers : {0u, 1u}) {
    Fixture f(64, ChecksumPolicy::kAll, kStall - milliseconds(500), helpers);
    f.Share();
    f.other.delay = kStall + milliseconds(500);
    const TimePoint start = Clock::now();
    f.Read();
    EXPECT_GE(Clock::now() - start, kStall) << "it was waited for";
    for (size_t i = 0; i < 64; ++i) {
      ASSERT_EQ(f.outcomes[i], i % 2 == 0 ? ReadOutcome::kRead : ReadOutcome::kUnreachable) << i;
      if (i % 2 == 0) {
        ASSERT_TRUE(IsPageOf(f.segments[i], KeyOf(i)));
      }
    }
    EXPECT_GT(f.peers.Find(NodeHash("other"))->health().trips(), 0u);
    EXPECT_EQ(f.peers.Find(NodeHash("holder"))->health().trips(), 0u);
    EXPECT_EQ(f.peers.Find(NodeHash("other"))->way(0).under_way, 0u);
  }
}

TEST(RemoteReaderTest, TheHoldersLeaseCountsWhenItIsTheShorterOne) {
  Fixture f(4);
  for (size_t i : {1, 3}) f.pages[i].record.lease_ms = 100;
  f.holder.delay = milliseconds(200);
  f.Read();
  EXPECT_EQ(f.outcomes[1], ReadOutcome::kExpired);
  EXPECT_EQ(f.outcomes[3], ReadOutcome::kExpired);
  EXPECT_EQ(f.Count(ReadOutcome::kRead), 2u);
}

TEST(RemoteReaderTest, PagesThatHaveMovedOnAreStale) {
  Fixture f(4);
  f.pages[2].record.generation += 1;
  f.Read();
  EXPECT_EQ(f.outcomes[2], ReadOutcome::kStale);
  EXPECT_EQ(f.Count(ReadOutcome::kRead), 3u);
}

TEST(RemoteReaderTest, WrongBytesAreFoundByTheirChecksum) {
  Fixture f(4);
  f.pages[1].record.checksum ^= 1;
  f.pages[3].record.checksum = 0;  // not computed: nothing to compare with
  f.Read();
  EXPECT_EQ(f.outcomes[1], ReadOutcome::kCorrupt);
  EXPECT_EQ(f.Count(ReadOutcome::kRead), 3u);
}

// Brings page i out of `from`, looked at on the way, or hands it back.
class EarlyReader final : public PageReader {
 public:
  std::vector<size_t> Read(const ReadBatch& batch, std::vector<size_t> asked) override {
    std::vector<size_t> rest;
    for (const size_t i : asked) {
      const Bytes to = batch.to.Of(batch.pages[i].page)[0];
      std::memcpy(to.data(), from[i].data(), to.size());
      EXPECT_TRUE(batch.checks->Wants(i));
      batch.checks->Check(i);
      EXPECT_FALSE(batch.checks->Wants(i));
      if (i == hands_back) {
        rest.push_back(i);
      } else {
        batch.outcomes[i] = ReadOutcome::kReadByRdma;
      }
    }
    return rest;
  }
  std::vector<std::vector<std::byte>> from;
  size_t hands_back = SIZE_MAX;
};

TEST(RemoteReaderTest, WhatWasVerifiedOnTheWayIsNotVerifiedAgain) {
  Fixture f(4);
  f.Read();
  EarlyReader early;
  for (const Bytes page : f.segments) early.from.emplace_back(page.begin(), page.end());
  early.from[1][5] ^= std::byte{1};
  early.from[2][5] ^= std::byte{1};
  early.hands_back = 2;  // TCP brings it then, with other bytes
  RemoteReader reader({&early, f.tcp.get()}, ChecksumPolicy::kAll, &f.counters, &f.crew);
  const uint64_t before = f.counters.verified;
  reader.Read(f.pages, {f.segments, 1}, f.outcomes, Clock::now() + milliseconds(20'000));
  EXPECT_EQ(f.outcomes[0], ReadOutcome::kReadByRdma);
  EXPECT_EQ(f.outcomes[1], ReadOutcome::kCorrupt);
  EXPECT_EQ(f.outcomes[2], ReadOutcome::kRead);
  EXPECT_EQ(f.outcomes[3], ReadOutcome::kReadByRdma);
  EXPECT_EQ(f.counters.verified, before + 5) << "each once, and the one that came twice anew";
}

TEST(RemoteReaderTest, SamplingVerifiesOneKeyInSixteen) {
  Fixture f(800, ChecksumPolicy::kSampled);
  f.Read();
  EXPECT_EQ(f.Count(ReadOutcome::kRead), 800u);
  EXPECT_GT(f.counters.verified, 25u);
  EXPECT_LT(f.counters.verified, 90u);
}

TEST(RemoteReaderTest, AHolderThatNobodyKnowsIsUnreachable) {
  Fixture f(2);
  f.pages[0].record.node = 12345;
  f.Read();
  EXPECT_EQ(f.outcomes[0], ReadOutcome::kUnreachable);
  EXPECT_EQ(f.outcomes[1], ReadOutcome::kRead);
}

}  // namespace
}  // namespace peercache
