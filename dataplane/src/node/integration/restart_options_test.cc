// A node that is killed under load, and comes back with other options: bytes that readers of the
// processes before were sent stay as they are for the lease that these processes had.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "base/wrong_bytes.h"
#include "node/integration/node_testing.h"
#include "node/integration/restart_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::Restarted;
using testing::SlowReader;
using testing::TestEngine;

constexpr size_t kPage = testing::kRestartedPage, kPages = 64, kBatch = 8;
constexpr auto kSoon = testing::kEndsAHang;

struct Sent {
  std::unique_ptr<SlowReader> reader;
  uint64_t page;
  milliseconds lease;  // of the process that has sent it
};

// PEERCACHE_KILL_ROUNDS: how often. No round waits for room, of which there is little while much
// rests.
TEST(RestartOptionsTest, WheneverANodeIsKilledAndComesBackWithOtherOptionsReadersHaveTheirBytes) {
  const int rounds = testing::KillRounds();
  std::random_device device;
  const uint64_t seed = device();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto one_of = [&](std::initializer_list<const char*> values) {
    return std::string(values.begin()[random() % values.size()]);
  };
  Restarted node("16Mi");
  std::vector<Sent> late;
  uint64_t next = 1000, last = next;
  int taken = 0, wrong = 0, too_late = 0;
  milliseconds lease{800};
  for (int round = 0; round < rounds; ++round) {
    node.Set("lease-ms", std::to_string(lease.count()));
    node.Set("checksums", one_of({"off", "all"}));
    node.Set("eviction", one_of({"lru", "s3fifo"}));
    node.Set("promotion-percent", one_of({"0", "10", "50"}));
    // A file of another layout is emptied.
    if (random() % 8 == 0) node.Set("pool-size", one_of({"16Mi", "18Mi"}));
    node.Start();
    TestEngine writer(node.socket(), kBatch, kPage), reader(node.socket(), kPages, kPage);
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> newest{0};
    std::thread load([&] {
      while (!stop) {
        if (writer.Set(next += kBatch, kBatch) == kBatch) newest = next;
        std::this_thread::sleep_for(1ms);  // else the newest are gone before they are asked for
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300'000));
    if (newest != 0) last = newest;
    for (int i = 0; i < 4; ++i) {
      Sent sent{std::make_unique<SlowReader>(node.port()), last - random() % kPages, lease};
      if (sent.reader->Ask(sent.page)) late.push_back(std::move(sent));
    }
    // Some come to it now, some after the next kill.
    std::erase_if(late, [&](const Sent& sent) {
      if (random() % 3 != 0) return false;
      std::vector<std::byte> right(kPage);
      TestEngine::Fill(right, sent.page);
      const auto bytes = sent.reader->Take();
      if (Clock::now() - sent.reader->asked() >= sent.lease) {
        ++too_late;
        return true;
      }
      ++taken;
      if (!HasRightBytes("page " + std::to_string(sent.page), bytes, right)) ++wrong;
      return true;
    });
    for (uint64_t n = last - std::min(last, uint64_t{256}); n < last; n += kPages)
      wrong += static_cast<int>(reader.Get(n, kPages).wrong);
    node.End(SIGKILL);
    stop = true;
    load.join();
    lease = milliseconds(std::array{50, 200, 800}[random() % 3]);
  }
  EXPECT_EQ(wrong, 0);
  std::printf("%d rounds: %d pages came late, %d after their lease\n", rounds, taken, too_late);
}

}  // namespace
}  // namespace peercache
