// Nodes whose pool is a file: what an engine, and the other nodes, have of them after a restart.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "node/integration/node_testing.h"
#include "node/integration/restart_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::Eventually;
using testing::NodeProcess;
using testing::Restarted;
using testing::SlowReader;
using testing::TempDir;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = testing::kRestartedPage, kPages = 64;
constexpr auto kSoon = testing::kEndsAHang;

TEST(RestartTest, AnEngineGoesOnWithThePagesOfANodeThatWasKilled) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    Restarted node;
    node.Start();
    TestEngine engine(node.socket(), kPages, kPage);
    ASSERT_EQ(engine.Set(0, kPages), kPages);
    for (int again = 0; again < 2; ++again) {
      node.End(signal);
      EXPECT_EQ(engine.Get(0, kPages).hits, 0u);
      node.Start();
      EXPECT_TRUE(Eventually(kSoon, [&] { return engine.Get(0, kPages).hits == kPages; }));
      EXPECT_EQ(engine.Exists(0, kPages), kPages);
      EXPECT_TRUE(Eventually(kSoon, [&] { return engine.Set(1000, 8) == 8; })) << "after the rest";
    }
  }
}

TEST(RestartTest, AFaultOrOtherOptionsLeaveNothing) {
  Restarted node;
  node.Start();
  TestEngine engine(node.socket(), kPages, kPage);
  ASSERT_EQ(engine.Set(0, kPages), kPages);
  node.End(SIGSEGV);
  node.Start();
  ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Set(1000, 8) == 8; }));
  EXPECT_EQ(engine.Get(0, kPages).hits, 0u);
  node.End(SIGKILL);
  node.Set("pool-size", "48Mi");
  node.Start();
  ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Set(2000, 8) == 8; }));
  EXPECT_EQ(engine.Get(1000, 8).hits, 0u);
}

TEST(RestartTest, AShorterLeaseLeavesAloneWhatReadersWereSentUnderTheLongerOne) {
  constexpr auto kLonger = 60s;
  constexpr size_t kReaders = 3;
  Restarted node("16Mi");
  node.Set("lease-ms", "60000");
  node.Set("checksums", "off");
  node.Start();
  TestEngine engine(node.socket(), kPages, kPage);
  ASSERT_EQ(engine.Set(0, kReaders), kReaders);
  std::vector<std::unique_ptr<SlowReader>> readers;
  for (uint64_t i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<SlowReader>(node.port()));
    ASSERT_TRUE(readers.back()->Ask(i));
  }
  node.Set("lease-ms", "50");
  for (int again = 0; again < 2; ++again) {  // the first one has no time to rest
    node.End(SIGKILL);
    node.Start();
  }
  ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Exists(0, kReaders) == kReaders; }));
  // As much as the pool has, if it takes it.
  const TimePoint end = Clock::now() + 2s;
  for (uint64_t next = 1000; Clock::now() < end; next += kPages) (void)engine.Set(next, kPages);
  for (uint64_t i = 0; i < kReaders; ++i) {
    std::vector<std::byte> wanted(kPage);
    TestEngine::Fill(wanted, i);
    const auto taken = readers[i]->Take();
    if (Clock::now() - readers[i]->asked() >= kLonger) GTEST_SKIP() << "it may be anything by now";
    EXPECT_TRUE(HasRightBytes("page " + std::to_string(i), taken, wanted))
        << "sent by the process before, within its lease";
  }
}

// PEERCACHE_KILL_ROUNDS: how often (node_process_testing.h).
TEST(RestartTest, WheneverANodeIsKilledUnderLoadItsPagesAreRightAndThere) {
  const int rounds = testing::KillRounds();
  constexpr size_t kBatch = 8, kRecent = 32;
  Restarted node("16Mi");
  std::random_device device;
  const uint64_t seed = device();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  node.Start();
  TestEngine writer(node.socket(), kBatch, kPage), reader(node.socket(), kPages, kPage);
  uint64_t next = 0, acknowledged = 0, hits = 0;
  for (int round = 0; round < rounds; ++round) {
    ASSERT_TRUE(Eventually(kSoon, [&] { return writer.Set(next += kBatch, kBatch) == kBatch; }));
    std::atomic<bool> stop{false};
    std::vector<uint64_t> set;  // batches of which all pages were acknowledged
    std::thread load([&] {
      while (!stop)
        if (writer.Set(next += kBatch, kBatch) == kBatch) set.push_back(next);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300'000));
    node.End(SIGKILL);
    stop = true;
    load.join();
    node.Start();
    ASSERT_TRUE(Eventually(kSoon, [&] { return writer.Set(next += kBatch, kBatch) == kBatch; }));
    ASSERT_TRUE(Eventually(kSoon, [&] { return reader.Get(next, kBatch).hits == kBatch; }))
        << "it is back, too";
    // The newest ones: none of them was about to go.
    const size_t from = set.size() - std::min(set.size(), kRecent / kBatch);
    for (size_t i = from; i < set.size(); ++i) {
      acknowledged += kBatch;
      hits += reader.Get(set[i], kBatch).hits;
    }
    // Whatever else is there: every byte of it is looked at.
    const uint64_t all = next - std::min(next, uint64_t{512});
    for (uint64_t n = all; n < next; n += kPages) EXPECT_EQ(reader.Get(n, kPages).wrong, 0u);
  }
  EXPECT_EQ(hits, acknowledged);
  std::printf("%d rounds: %lu of %lu pages that had been acknowledged last are there\n", rounds,
              hits, acknowledged);
}

TEST(RestartTest, NobodyIsHandedThePoolsFile) {
  const TempDir memory("/dev/shm");
  TestCluster cluster([&](NodeConfig* c) {
    c->map_pools = true;
    if (c->node_id == "holder") c->pool_file = memory.path();
  });
  const auto holder = cluster.Start("holder"), reader = cluster.Start("reader");
  TestEngine writer(holder->socket(), kPages, kPage), engine(reader->socket(), kPages, kPage);
  ASSERT_EQ(writer.Set(0, kPages), kPages);
  ASSERT_EQ(engine.Set(1000, kPages), kPages);
  // The other direction says that mapping works here.
  const auto mapped = [](const Node& node) -> uint64_t {
    return json::parse(node.StatusJson())["lookups"]["delivered"]["mapped"]["pages"];
  };
  ASSERT_TRUE(Eventually(
      kSoon, [&] { return writer.Get(1000, kPages).hits == kPages && mapped(*holder) > 0; }));
  EXPECT_EQ(engine.Get(0, kPages).hits, kPages);
  EXPECT_EQ(mapped(*reader), 0u);
}

// ---- clears, among several nodes

class RestartClearsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kTag = 7;
  void Start(std::unique_ptr<Node>* node, const char* id) { *node = cluster_.Start(id); }
  uint64_t Adopted(const Node& node) {
    return json::parse(node.StatusJson())["pool"]["adopted_pages"];
  }
  // Of b, once all are there.
  void AwaitOnDrive(uint64_t pages) {
    ASSERT_TRUE(Eventually(kSoon, [&] {
      const json disk = json::parse(b_->StatusJson())["disk"];
      return disk["pages"] == pages && disk["waiting_pages"] == 0u;
    }));
  }
  // Pages that were set under a tag after it was cleared.
  void SetAfterAClear() {
    TestEngine on_a(a_->socket(), kPages, kPage), on_b(b_->socket(), kPages, kPage);
    ASSERT_TRUE(Eventually(kSoon, [&] { return on_a.client().Clear(kTag).ok(); }));
    ASSERT_TRUE(Eventually(kSoon, [&] { return on_b.Set(0, 8, kTag) == 8u; }));
  }
  size_t HitsOnB() {
    TestEngine on_b(b_->socket(), kPages, kPage);
    size_t hits = 0;
    (void)Eventually(kSoon, [&] { return (hits = on_b.Get(0, 8).hits) == 8u; });
    return hits;
  }
  TempDir memory_{"/dev/shm"}, disks_{"/var/tmp"};
  bool drive_ = false;
  TestCluster cluster_{[this](NodeConfig* c) {
    c->pool_file = memory_.path() + "/" + c->node_id;
    c->promotion_percent = 0;
    if (drive_) {
      c->disk_paths = {disks_.path() + "/" + c->node_id};
      mkdir(c->disk_paths[0].c_str(), 0700);
      c->disk_bytes = uint64_t{520} << 20;
      c->disk_write_budget = "unlimited";
    }
    if (patient_) c->member_ttl = testing::kEndsAHang;
  }};
  bool patient_ = false;  // nodes that start wait long for members
  std::unique_ptr<Node> a_, b_;
};

TEST_F(RestartClearsTest, PagesThatWereClearedMeanwhileDoNotComeBack) {
  Start(&a_, "a");
  Start(&b_, "b");
  {
    TestEngine on_a(a_->socket(), kPages, kPage), on_b(b_->socket(), kPages, kPage);
    ASSERT_EQ(on_b.Set(0, 8, kTag), 8u);
    ASSERT_EQ(on_b.Set(100, 8, kTag + 1), 8u);
    ASSERT_TRUE(Eventually(kSoon, [&] { return on_a.Get(0, 8).hits == 8; }));
    b_.reset();
    ASSERT_TRUE(Eventually(kSoon, [&] { return on_a.client().Clear(kTag).ok(); }));
  }
  Start(&b_, "b");
  EXPECT_EQ(Adopted(*b_), 16u) << "or this tests nothing";
  TestEngine on_a(a_->socket(), kPages, kPage), on_b(b_->socket(), kPages, kPage);
  const TimePoint end = Clock::now() + 1s;
  do {
    ASSERT_EQ(on_b.Get(0, 8).hits, 0u);
    ASSERT_EQ(on_a.Get(0, 8).hits, 0u);
  } while (Clock::now() < end);
  EXPECT_TRUE(Eventually(kSoon, [&] { return on_b.Get(100, 8).hits == 8; }));
  EXPECT_TRUE(Eventually(kSoon, [&] { return on_a.Get(100, 8).hits == 8; })) << "published anew";
}

// The one that made the clear restarts as well, before the other has heard of it.
TEST_F(RestartClearsTest, ClearsAreRememberedBesideThePages) {
  Start(&a_, "a");
  Start(&b_, "b");
  {
    TestEngine on_a(a_->socket(), kPages, kPage), on_b(b_->socket(), kPages, kPage);
    ASSERT_EQ(on_b.Set(0, 8, kTag), 8u);
    b_.reset();
    ASSERT_TRUE(Eventually(kSoon, [&] { return on_a.client().Clear(kTag).ok(); }));
    const uint16_t port = a_->peer_port();
    a_.reset();
    a_ = cluster_.Start("a", true, port);
  }
  Start(&b_, "b");
  EXPECT_EQ(Adopted(*b_), 8u);
  TestEngine on_b(b_->socket(), kPages, kPage);
  const TimePoint end = Clock::now() + 1s;
  do ASSERT_EQ(on_b.Get(0, 8).hits, 0u);
  while (Clock::now() < end);
}

// Pages that come back from a drive into a new file of the pool have seen what the drive has seen.
TEST_F(RestartClearsTest, ANewFileOfThePoolKnowsTheClearsOfTheDrive) {
  drive_ = true;
  Start(&a_, "a");
  Start(&b_, "b");
  SetAfterAClear();
  AwaitOnDrive(8);
  b_.reset();
  std::filesystem::remove_all(memory_.path() + "/b");
  Start(&b_, "b");
  EXPECT_EQ(Adopted(*b_), 0u);
  ASSERT_EQ(HitsOnB(), 8u);
  b_.reset();
  Start(&b_, "b");
  EXPECT_EQ(Adopted(*b_), 8u);
  EXPECT_EQ(HitsOnB(), 8u);
}

TEST_F(RestartClearsTest, ANewDriveKnowsTheClearsOfThePool) {
  Start(&a_, "a");
  Start(&b_, "b");
  SetAfterAClear();
  b_.reset();
  drive_ = true;
  Start(&b_, "b");
  EXPECT_EQ(Adopted(*b_), 8u);
  AwaitOnDrive(8);
  b_.reset();
  Start(&b_, "b");
  EXPECT_EQ(HitsOnB(), 8u);
}

// The discovery host comes back, and sees nobody at first: the other member is slow.
TEST_F(RestartClearsTest, WhoSeesNobodyYetWaitsForSome) {
  patient_ = true;
  Start(&a_, "a");
  const NodeConfig config = cluster_.Config("b");
  NodeProcess b({"node-id=b", "cluster=test", "bind-addr=127.0.0.1", "advertise-addr=127.0.0.1",
                 "peer-port=0", "http=off", "heartbeat-ms=100", "member-ttl-ms=1500",
                 "lease-ms=200", "pool-size=32Mi", "huge-pages=off", "transport=tcp",
                 "discovery-addr=" + config.discovery_addr, "socket=" + config.socket});
  ASSERT_TRUE(Eventually(kSoon, [&] { return ConnectUnix(config.socket).ok(); }));
  const uint16_t port = a_->peer_port();
  TestEngine on_b(config.socket, kPages, kPage);
  {
    TestEngine on_a(a_->socket(), kPages, kPage);
    ASSERT_EQ(on_a.Set(0, 8, kTag), 8u);
    ASSERT_TRUE(Eventually(kSoon, [&] { return on_b.Get(0, 8).hits == 8; }));
    a_.reset();
    ASSERT_TRUE(Eventually(kSoon, [&] { return on_b.client().Clear(kTag).ok(); }));
  }
  b.Signal(SIGSTOP);
  a_ = cluster_.Start("a", false, port);
  EXPECT_EQ(Adopted(*a_), 8u);
  TestEngine on_a(a_->socket(), kPages, kPage);
  const auto nothing_for = [&](Duration time) {
    const TimePoint end = Clock::now() + time;
    while (Clock::now() < end && on_a.Get(0, 8).hits == 0) {
    }
    return Clock::now() >= end;
  };
  EXPECT_TRUE(nothing_for(800ms)) << "a page that was cleared while it was away";
  b.Signal(SIGCONT);
  EXPECT_TRUE(nothing_for(2s)) << "a page that was cleared while it was away";
  EXPECT_TRUE(Eventually(kSoon, [&] { return on_a.Set(100, 8) == 8; }));
}

}  // namespace
}  // namespace peercache
