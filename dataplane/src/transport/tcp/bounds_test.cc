// What peers that have greeted can cost a server: memory, and pages that are pinned.
#include <fstream>

#include "base/memory.h"
#include "transport/tcp/inbox.h"
#include "transport/tcp/tcp_testing.h"

namespace peercache {
namespace {

using namespace testing;

constexpr size_t kMiB = 1 << 20;

// A header that announces the largest body, and as many bytes of that body.
std::vector<std::byte> Beginning(size_t bytes) {
  FrameHeader header;
  header.type = MessageType::kRead;
  header.body_length = kMaxBody;
  std::vector<std::byte> frame(sizeof(header) + bytes);
  std::memcpy(frame.data(), &header, sizeof(header));
  return frame;
}

UniqueFd Greeted(Fixture* f) {
  UniqueFd fd = RawConnect(f->server->port());
  SendAll(fd.get(), HelloFrame("test"));
  ReceivedFrame frame;
  EXPECT_TRUE(ReceiveFrame(fd.get(), Clock::now() + kEndsAHang, &frame).ok());
  return fd;
}

// Bytes of this process that are in memory.
size_t Resident() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * SmallPageSize();
}

TEST(TcpBoundsTest, AnnouncedBytesCostNothing) {
  Fixture f;
  const size_t before = Resident();
  std::vector<UniqueFd> peers;
  for (int i = 0; i < 100; ++i) {
    peers.push_back(Greeted(&f));
    SendAll(peers.back().get(), Beginning(100));
  }
  ExpectServes(&f);
  EXPECT_LT(Resident(), before + 100 * kMiB) << "they announced 1.6 GB";
  for (const UniqueFd& fd : peers) EXPECT_FALSE(ServerClosed(fd.get()));
}

TEST(TcpBoundsTest, ARequestThatDripsIsCutOff) {
  Fixture f({.frame_limit = 300ms, .hello_timeout = 2s});
  UniqueFd fd = Greeted(&f);
  const std::vector<ReadItem> items(100);
  FrameWriter w = ReadOf(items, 1);
  const auto request = w.Finish();
  size_t sent = 0;
  while (sent + 1 < request.size() && !ServerClosed(fd.get())) {
    SendAll(fd.get(), request.subspan(sent++, 1));
    std::this_thread::sleep_for(20ms);  // would be a minute
  }
  EXPECT_LT(sent + 1, request.size());
  EXPECT_TRUE(Eventually([&] { return f.server->stats().unfinished == 1; }));
  EXPECT_TRUE(Eventually([&] { return f.server->stats().connections == 0; }));
}

TEST(TcpBoundsTest, AReaderThatTakesItsPagesDripByDripIsCutOff) {
  Fixture f({.write_stall = 1s});
  constexpr size_t kAll = 24 * 2 * kMiB;
  std::vector<ReadItem> items;
  for (uint8_t i = 1; i <= 24; ++i) items.push_back(f.service.Add(i, 2 * kMiB));
  UniqueFd fd = Greeted(&f);
  FrameWriter w = ReadOf(items, 1);
  SendAll(fd.get(), w.Finish());
  std::vector<std::byte> part(256 << 10);
  size_t got = 0;
  while (got < kAll && f.server->stats().connections > 0) {
    const ssize_t n = recv(fd.get(), part.data(), part.size(), 0);
    if (n > 0) got += static_cast<size_t>(n);
    std::this_thread::sleep_for(100ms);  // 2.5 MB/s, and never still for a second: would be 20 s
  }
  EXPECT_LT(got + DrainUntilClosed(fd.get()).size(), kAll);
  EXPECT_EQ(f.server->stats().connections, 0u);
}

// They hold what they have announced, and others need it.
TEST(TcpBoundsTest, WhoAnnouncesAndDoesNotSendKeepsNobodyWaiting) {
  FrameMemory memory;
  Fixture f({.memory = &memory});
  std::vector<UniqueFd> peers;
  for (int i = 0; i < 4; ++i) {
    peers.push_back(Greeted(&f));
    SendAll(peers.back().get(), Beginning(100'000));
  }
  EXPECT_TRUE(Eventually([&] { return memory.stats().waited == 3; }));
  const std::vector<ReadItem> ordinary(2'000), large(30'000);
  Channel channel = f.NewChannel();
  const auto ask = [&](std::span<const ReadItem> items) {
    FrameWriter request = ReadOf(items, 1);
    BufferSink sink(16);
    EXPECT_TRUE(RunOne(&channel, &request, &sink).ok()) << channel.status().ToString();
    EXPECT_EQ(sink.lengths.size(), items.size());
  };
  for (int i = 0; i < 20; ++i) ask(ordinary);
  EXPECT_EQ(memory.stats().waited, 3u) << "these wait for nobody";
  ask(large);
  const FrameMemoryStats stats = memory.stats();
  EXPECT_GT(stats.cut_off, 0u);
  EXPECT_LE(stats.most, stats.limit);
  peers.clear();
  EXPECT_TRUE(Eventually([&] { return memory.stats().held + memory.stats().waiting == 0; }));
}

TEST(TcpBoundsTest, WhoDoesNotTakeItsLargeAnswersGivesWay) {
  FrameMemory memory(kLargeAnswer);
  Fixture f({.memory = &memory});
  FrameWriter w;
  w.Start(MessageType::kExists, 1);
  const auto request = w.Finish();
  std::vector<std::byte> requests;
  for (int i = 0; i < 200; ++i) requests.insert(requests.end(), request.begin(), request.end());
  std::vector<UniqueFd> peers;
  for (int i = 0; i < 4; ++i) {
    peers.push_back(Greeted(&f));
    SendAll(peers.back().get(), requests);
  }
  EXPECT_TRUE(Eventually([&] { return memory.over(); }));
  ExpectServes(&f);
  EXPECT_GT(memory.stats().cut_off, 0u);
}

TEST(TcpBoundsTest, ALargeAnswerWaitsForMemory) {
  FrameMemory memory(2 * kLargeAnswer);
  FrameMemory::Hold other(&memory);
  ASSERT_TRUE(other.Ask(2 * kLargeAnswer, -1));
  other.Whole();
  Fixture f;
  Channel channel({"127.0.0.1", f.server->port()}, Hello{"test", "", 1, 1}, nullptr, {}, &memory);
  const auto ask = [&](Duration stall) {
    FrameWriter request;
    request.Start(MessageType::kExists, 1);
    return RunOne(&channel, &request, nullptr, stall);
  };
  EXPECT_EQ(ask(50ms).code(), Code::kDeadlineExceeded);
  EXPECT_EQ(memory.stats().waiting, 0u);
  std::thread releases([&] {
    EXPECT_TRUE(Eventually([&] { return memory.stats().waiting == 1; }));
    other.Release();
  });
  EXPECT_TRUE(ask(kEndsAHang).ok()) << channel.status().ToString();
  releases.join();
  EXPECT_EQ(memory.stats().held, kLargeAnswer);
  channel.Rest();
  EXPECT_EQ(memory.stats().held, 0u);
}

TEST(TcpBoundsTest, LargeRequestsOfManyPeersAreAllAnswered) {
  FrameMemory memory(4 * kMiB + FrameMemory::kForSmaller);  // of two at once
  Fixture f({.memory = &memory});
  std::vector<std::thread> peers;
  std::atomic<uint64_t> again{0};
  for (int i = 0; i < 6; ++i) {
    peers.emplace_back([&f, &memory, &again] {
      const std::vector<ReadItem> gone(30'000);  // 2 MiB; none of these is in the pool
      Channel channel = f.NewChannel();
      for (uint64_t round = 1; round <= 5; ++round) {
        FrameWriter request = ReadOf(gone, round);
        BufferSink sink(16);
        while (!RunOne(&channel, &request, &sink).ok()) {
          // A busy machine may stop it for so long that it has to give way.
          ASSERT_LE(++again, memory.stats().cut_off) << channel.status().ToString();
        }
        EXPECT_EQ(sink.lengths.size(), gone.size());
      }
    });
  }
  for (std::thread& peer : peers) peer.join();
}

}  // namespace
}  // namespace peercache
