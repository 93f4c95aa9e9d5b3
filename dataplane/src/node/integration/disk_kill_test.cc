// A node with a drive is killed again and again while engines set, read and clear. The next process
// has no wrong byte and no cleared page, and it has what was set more than a second before the
// kill.
//
// PEERCACHE_KILL_ROUNDS: how often (node_process_testing.h).
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "node/integration/node_process_testing.h"
#include "node/integration/node_testing.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::NodeProcess;
using testing::TempDir;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 64 << 10, kBatch = 8, kPiece = 64;
constexpr auto kSoon = testing::kEndsAHang;
// A kill loses the pages of the last second; the rest is for a busy machine.
constexpr auto kOnDisk = 2s;
constexpr size_t kDisk = size_t{520} << 20;
// So many pages fill the pool, and blocks of the drive, which are written when they are full. In
// the time that a round lasts, a slow machine sets so few that a kill takes them all.
constexpr uint64_t kEnough = 512;

// A process with a pool file and a drive.
class KilledNode {
 public:
  void Start() {
    process_ = std::make_unique<NodeProcess>(options_);
    ASSERT_TRUE(Eventually(kSoon, [&] { return ConnectUnix(socket()).ok(); }));
  }
  void Kill() { process_->End(SIGKILL); }
  // What a restart of the machine does: the next process has the drive alone.
  void ForgetMemory() const {
    for (const auto& file : std::filesystem::directory_iterator(memory_.path()))
      std::filesystem::remove_all(file.path());
  }
  std::string socket() const { return dir_.path() + "/a.sock"; }

 private:
  TempDir dir_, memory_{"/dev/shm"}, disk_{"/var/tmp"};
  std::unique_ptr<NodeProcess> process_;
  const std::vector<std::string> options_ = {
      "node-id=a", "cluster=test", "bind-addr=127.0.0.1",
      "peer-port=" + std::to_string(TestCluster::FreePort()), "http=off", "socket=" + socket(),
      "pool-file=" + memory_.path(), "huge-pages=off", "transport=tcp", "lease-ms=100",
      // Checksums of the pool would hide wrong pages of it. Those of the disk are always there.
      "checksums=off", "pool-size=16Mi", "disk-path=" + disk_.path(),
      "disk-size=" + std::to_string(kDisk), "disk-write-budget=unlimited"};
};

// Engines that set, read, and set and clear, from Begin to End.
class Load {
 public:
  static constexpr uint64_t kRecent = 1024;
  static constexpr uint64_t kAll = 2 * kDisk / kPage;  // more than the drive and the pool hold

  explicit Load(const std::string& socket)
      : setter_(socket, kBatch, kPage),
        reader_(socket, kBatch, kPage),
        clearer_(socket, kBatch, kPage) {}

  void Begin(uint64_t seed) {
    stop_ = false;
    threads_.emplace_back([this] {
      while (!stop_) setter_.Set(next_.fetch_add(kBatch), kBatch);
    });
    threads_.emplace_back([this, seed] {
      std::mt19937_64 random(seed);
      while (!stop_) reader_.Get(next_ - std::min<uint64_t>(next_, random() % kRecent), kBatch);
    });
    threads_.emplace_back([this] { Clear(); });
  }
  void End() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // One behind the youngest page.
  uint64_t next() const { return next_; }
  // First numbers of batches that were cleared, and the clear was answered.
  const std::vector<uint64_t>& cleared() const { return cleared_; }

 private:
  static constexpr uint64_t kClearedFrom = uint64_t{1} << 32;
  static constexpr uint64_t kTags = 64;  // so few that the drive remembers the clear of each
  static constexpr uint64_t kLater = 32;

  // Sets a batch, and clears one of some rounds ago, which is on the drive by now.
  void Clear() {
    const auto tag_of = [](uint64_t batch) { return 100 + batch % kTags; };
    for (; !stop_; std::this_thread::sleep_for(2ms), ++batch_) {
      clearer_.Set(kClearedFrom + batch_ * kBatch, kBatch, tag_of(batch_));
      if (batch_ < kLater) continue;
      const uint64_t old = batch_ - kLater;
      if (clearer_.client().Clear(tag_of(old)).ok())
        cleared_.push_back(kClearedFrom + old * kBatch);
    }
  }

  TestEngine setter_, reader_, clearer_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> next_{0};
  uint64_t batch_ = 0;
  std::vector<uint64_t> cleared_;
  std::vector<std::thread> threads_;
};

TEST(DiskKillTest, WheneverANodeIsKilledUnderLoadItsPagesAreRightAndThoseOnDiskThere) {
  const int rounds = testing::KillRounds();
  std::random_device device;
  const uint64_t seed = device();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  KilledNode node;
  node.Start();
  Load load(node.socket());
  TestEngine engine(node.socket(), kPiece, kPage);
  uint64_t first = uint64_t{1} << 33;  // of pages that this test sets itself
  uint64_t from_disk = 0, from_both = 0, settled = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const bool settle = round % 10 == 3, memory_is_lost = round % 2 == 1;
    const bool loaded = settle || round % 10 == 2;
    first += kPiece;
    ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Set(first, kPiece) == kPiece; }));
    if (settle) std::this_thread::sleep_for(kOnDisk);
    const uint64_t before = load.next();
    load.Begin(random());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300'000));
    if (loaded) {
      EXPECT_TRUE(Eventually(kSoon, [&] { return load.next() >= before + kEnough; }));
    }
    node.Kill();
    load.End();
    if (memory_is_lost) node.ForgetMemory();
    node.Start();
    ASSERT_TRUE(Eventually(kSoon, [&] { return engine.client().attached(); }));
    // What it does not bring in time is there when it is asked for again.
    if (settle) {
      EXPECT_TRUE(Eventually(kSoon, [&] { return engine.Get(first, kPiece).hits == kPiece; }));
      settled += kPiece;
    }
    // Get fails the test for a wrong byte. Of the youngest pages each time, of all every tenth.
    const bool all = round % 10 == 9 || round + 1 == rounds;
    const uint64_t end = load.next();
    for (uint64_t n = end - std::min(end, all ? Load::kAll : Load::kRecent); n < end; n += kPiece)
      (memory_is_lost ? from_disk : from_both) += engine.Get(n, kPiece).hits;
    const std::vector<uint64_t>& cleared = load.cleared();
    for (size_t i = all ? 0 : cleared.size() - std::min<size_t>(cleared.size(), 50);
         i < cleared.size(); ++i)
      EXPECT_EQ(engine.Get(cleared[i], kBatch).hits, 0u) << "the clear of these was answered";
  }
  EXPECT_GT(from_both, 0u);
  EXPECT_GT(from_disk, 0u);
  std::printf(
      "%d rounds: %lu pages set before the last second, all there; %lu younger ones out of memory "
      "and disk, %lu out of the disk alone; %zu batches cleared\n",
      rounds, settled, from_both, from_disk, load.cleared().size());
}

}  // namespace
}  // namespace peercache
