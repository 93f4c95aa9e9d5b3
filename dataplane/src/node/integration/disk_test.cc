// Nodes with a disk: pages that have left the pool, the process or the other nodes' memory come
// back from it, and those that were cleared do not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "disk/device_file.h"
#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::Eventually;
using testing::TempDir;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 64 << 10;
constexpr size_t kPages = 768;  // 48 MiB: half as much again as the pool
constexpr size_t kPiece = 64;
constexpr auto kSoon = testing::kEndsAHang;

json DiskOf(const Node& node) { return json::parse(node.StatusJson())["disk"]; }
uint64_t CounterOf(const Node& node, const char* name) {
  return json::parse(node.StatusJson())["counters"][name];
}

// Nodes "a", "b" ...: each but those in `without` has a folder of its own.
class DiskNodes : public ::testing::Test {
 protected:
  DiskNodes()
      : cluster_([this](NodeConfig* config) {
          config->lease = lease_;
          if (config->node_id == "reader") return;
          config->disk_paths = {FolderOf(config->node_id)};
          if (two_drives_) config->disk_paths.push_back(FolderOf(config->node_id + "2"));
          config->disk_bytes = uint64_t{520} << 20;
          config->disk_write_budget = "unlimited";
        }) {}

  std::string FolderOf(const std::string& id) {
    const std::string folder = disks_.path() + "/" + id;
    mkdir(folder.c_str(), 0700);
    return folder;
  }
  // Sets as fast as the disk takes it, so that no page is evicted before it is written.
  static void SetAll(TestEngine* engine, const Node& node, uint64_t first = 0, uint64_t tag = 1) {
    for (size_t at = 0; at < kPages; at += kPiece) {
      // What is refused while slots are on their way is set again.
      ASSERT_TRUE(
          Eventually(kSoon, [&] { return engine->Set(first + at, kPiece, tag) == kPiece; }));
      ASSERT_TRUE(Eventually(kSoon, [&] { return DiskOf(node)["waiting_pages"] == 0u; }));
    }
    ASSERT_TRUE(Eventually(kSoon, [&] { return DiskOf(node)["pages"] >= kPages; }));
  }
  // What comes back needs slots, and those of a pool this small rest for a lease after each read:
  // so a page may be late, and is there when it is asked for again. On a busy machine that takes a
  // while: members miss each other's heartbeats, and readers their leases.
  static size_t HitsOf(TestEngine* engine, uint64_t first = 0, Duration patience = kSoon) {
    size_t hits = 0;
    const TimePoint deadline = Clock::now() + patience;
    for (size_t at = 0; at < kPages; at += kPiece) {
      size_t here = 0;
      (void)Eventually(std::max<Duration>(deadline - Clock::now(), 0s), [&] {
        here = engine->Get(first + at, kPiece).hits;
        return here == kPiece;
      });
      hits += here;
    }
    return hits;
  }
  static size_t FoundBy(TestEngine* engine, uint64_t first = 0) {
    size_t found = 0;
    for (size_t at = 0; at < kPages; at += kPiece) found += engine->Exists(first + at, kPiece);
    return found;
  }

  // The drive is not there at the next start.
  void TakeAway(const std::string& folder) {
    const std::string file = FolderOf(folder) + "/" + disk::kFileName;
    ASSERT_EQ(rename(file.c_str(), (file + ".away").c_str()), 0);
    ASSERT_EQ(mkdir(file.c_str(), 0700), 0);
  }
  void BringBack(const std::string& folder) {
    const std::string file = FolderOf(folder) + "/" + disk::kFileName;
    ASSERT_EQ(rmdir(file.c_str()), 0);
    ASSERT_EQ(rename((file + ".away").c_str(), file.c_str()), 0);
  }

  milliseconds lease_{200};
  bool two_drives_ = false;
  TempDir disks_{"/var/tmp"};
  TestCluster cluster_;
};

TEST_F(DiskNodes, PagesThatHaveLeftThePoolComeBack) {
  auto a = cluster_.Start("a");
  TestEngine engine(a->socket(), kPiece, kPage);
  SetAll(&engine, *a);
  EXPECT_EQ(FoundBy(&engine), kPages);
  EXPECT_EQ(HitsOf(&engine), kPages);
  EXPECT_GT(DiskOf(*a)["loaded_pages"], 0u);
}

TEST_F(DiskNodes, GetsThatWaitForSlotsAreNotTakenForSets) {
  lease_ = 1000ms;
  auto a = cluster_.Start("a"), b = cluster_.Start("reader");
  TestEngine engine(a->socket(), kPiece, kPage), other(b->socket(), kPiece, kPage);
  SetAll(&engine, *a);
  ASSERT_TRUE(Eventually(kSoon, [&] { return FoundBy(&other) == kPages; }));
  const auto stalled = [&] {
    return json::parse(a->StatusJson())["pool"]["set_stall_seconds"].get<double>();
  };
  const double before = stalled();
  // The other node's reads have slots rest for a lease, so pages may be late.
  EXPECT_GT(HitsOf(&other, 0, 1s) + HitsOf(&engine, 0, 1s), kPages);
  EXPECT_EQ(stalled(), before);
}

TEST_F(DiskNodes, OtherNodesReadPagesThatAreOnDisk) {
  auto a = cluster_.Start("a"), b = cluster_.Start("reader"), c = cluster_.Start("c");
  TestEngine writer(a->socket(), kPiece, kPage), reader(b->socket(), kPiece, kPage);
  SetAll(&writer, *a);
  // The directory hears of what was evicted a moment later.
  EXPECT_TRUE(Eventually(kSoon, [&] { return FoundBy(&reader) == kPages; }));
  EXPECT_EQ(HitsOf(&reader), kPages);
  EXPECT_GT(DiskOf(*a)["loaded_pages"], 0u);
  EXPECT_GE(CounterOf(*b, "read_remote_hits"), kPages);
  EXPECT_EQ(HitsOf(&reader), kPages);  // also those that the loads have evicted meanwhile
}

TEST_F(DiskNodes, AnExistsOnAnotherNodeBeginsToBringThem) {
  auto a = cluster_.Start("a"), b = cluster_.Start("reader");
  TestEngine writer(a->socket(), kPiece, kPage), reader(b->socket(), kPiece, kPage);
  SetAll(&writer, *a);
  const std::vector<Key> keys = TestEngine::Keys(0, kPiece);
  std::vector<uint8_t> there(kPiece);
  // Asks where pages are, and has none brought.
  ASSERT_TRUE(Eventually(kSoon, [&] {
    return reader.client().Presence(keys, there) && std::ranges::count(there, 1) == kPiece;
  }));
  EXPECT_EQ(DiskOf(*a)["loaded_pages"], 0u);
  EXPECT_EQ(reader.Exists(0, kPiece), kPiece);
  EXPECT_TRUE(Eventually(kSoon, [&] { return DiskOf(*a)["loaded_pages"] >= kPiece; }));
  EXPECT_EQ(CounterOf(*b, "read_remote_hits"), 0u);
  EXPECT_EQ(HitsOf(&reader), kPages);
}

TEST_F(DiskNodes, PagesOutliveTheProcess) {
  auto a = cluster_.Start("a"), b = cluster_.Start("reader");
  {
    TestEngine writer(a->socket(), kPiece, kPage);
    SetAll(&writer, *a);
  }
  const uint16_t port = a->peer_port();
  a.reset();
  a = cluster_.Start("a", true, port);
  ASSERT_TRUE(Eventually(kSoon, [&] { return DiskOf(*a)["pages"] >= kPages; }));
  TestEngine own(a->socket(), kPiece, kPage), reader(b->socket(), kPiece, kPage);
  EXPECT_TRUE(Eventually(kSoon, [&] { return FoundBy(&reader) == kPages; }));
  EXPECT_EQ(HitsOf(&reader), kPages);
  EXPECT_EQ(HitsOf(&own), kPages);
}

TEST_F(DiskNodes, WhatIsClearedComesBackNeitherFromDiskNorAfterARestart) {
  auto a = cluster_.Start("a"), b = cluster_.Start("b");
  TestEngine on_a(a->socket(), kPiece, kPage), on_b(b->socket(), kPiece, kPage);
  SetAll(&on_a, *a);
  SetAll(&on_b, *b, 10000, 2);
  ASSERT_TRUE(on_b.client().Clear(1).ok());
  EXPECT_EQ(FoundBy(&on_a) + FoundBy(&on_b), 0u);
  EXPECT_EQ(HitsOf(&on_a, 0, 0s) + HitsOf(&on_b, 0, 0s), 0u);
  EXPECT_EQ(HitsOf(&on_a, 10000), kPages);  // of another tag
  const uint16_t port = a->peer_port();
  a.reset();
  a = cluster_.Start("a", true, port);
  ASSERT_TRUE(Eventually(kSoon, [&] {
    const json disk = DiskOf(*a);
    return disk["devices"][0]["recovered"] == true;
  }));
  TestEngine again(a->socket(), kPiece, kPage);
  EXPECT_EQ(FoundBy(&again) + FoundBy(&on_b), 0u);
  EXPECT_EQ(HitsOf(&again, 0, 0s) + HitsOf(&on_b, 0, 0s), 0u);
  EXPECT_EQ(HitsOf(&again, 10000), kPages);
}

// Pages go to disk, come back, and are cleared and set again all the time; none may be another's,
// and after a clear none of before may be there.
TEST_F(DiskNodes, ClearsWhilePagesComeAndGo) {
  auto a = cluster_.Start("a"), b = cluster_.Start("b");
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (const Node* node : {a.get(), b.get()}) {
    threads.emplace_back([&, node] {
      TestEngine engine(node->socket(), kPiece, kPage);
      for (uint64_t round = 0; !stop; ++round) {
        const uint64_t first = 50000 + round % 16 * kPiece;
        engine.Set(first, kPiece, 3);
        engine.Exists(50000 + (round + 5) % 16 * kPiece, kPiece);
        engine.Get(50000 + (round + 9) % 16 * kPiece, kPiece);  // fails the test for wrong bytes
      }
    });
  }
  TestEngine clearer(a->socket(), kPiece, kPage), reader(b->socket(), kPiece, kPage);
  for (uint64_t round = 0; round < 5; ++round) {
    const uint64_t first = 90000 + round * 1000, tag = 100 + round;
    clearer.Set(first, kPiece, tag);  // what others leave room for
    std::this_thread::sleep_for(300ms);
    EXPECT_TRUE(Eventually(kSoon, [&] { return clearer.client().Clear(tag).ok(); }));
    EXPECT_EQ(clearer.Exists(first, kPiece) + reader.Exists(first, kPiece), 0u);
    EXPECT_EQ(clearer.Get(first, kPiece).hits + reader.Get(first, kPiece).hits, 0u);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// Its pages are back when the drive is: so a clear meanwhile must not be said to have succeeded,
// unless another member keeps it.
TEST_F(DiskNodes, AClearThatNoDriveHasRecordedFailsOnALoneNode) {
  auto a = cluster_.Start("a");
  {
    TestEngine engine(a->socket(), kPiece, kPage);
    ASSERT_EQ(engine.Set(0, kPiece), kPiece);
    ASSERT_TRUE(Eventually(kSoon, [&] { return DiskOf(*a)["pages"] == kPiece; }));
    EXPECT_TRUE(engine.client().Clear(77).ok());
  }
  const uint16_t port = a->peer_port();
  const auto start_without_drive = [&] {
    a.reset();
    ASSERT_NO_FATAL_FAILURE(TakeAway("a"));
    a = cluster_.Start("a", true, port);
    ASSERT_FALSE(DiskOf(*a)["devices"][0]["on"]);
  };
  const auto start_with_drive = [&] {
    a.reset();
    ASSERT_NO_FATAL_FAILURE(BringBack("a"));
    a = cluster_.Start("a", true, port);
    ASSERT_TRUE(Eventually(kSoon, [&] { return DiskOf(*a)["devices"][0]["recovered"] == true; }));
  };
  ASSERT_NO_FATAL_FAILURE(start_without_drive());
  {
    TestEngine engine(a->socket(), kPiece, kPage);
    const Status alone = engine.client().Clear(1);
    EXPECT_EQ(alone.code(), Code::kUnavailable);
    EXPECT_NE(alone.message().find("remove the files in disk-path"), std::string::npos)
        << alone.message();
  }
  ASSERT_NO_FATAL_FAILURE(start_with_drive());
  {
    TestEngine engine(a->socket(), kPiece, kPage);
    // After a while: others might know of clears, so it waits for some.
    EXPECT_TRUE(Eventually(kSoon, [&] { return engine.Get(0, kPiece).hits == kPiece; }))
        << "as it was said";
  }
  ASSERT_NO_FATAL_FAILURE(start_without_drive());
  auto other = cluster_.Start("reader");
  {
    TestEngine engine(a->socket(), kPiece, kPage);
    const Status kept = engine.client().Clear(1);
    EXPECT_TRUE(kept.ok()) << kept.message();
  }
  ASSERT_NO_FATAL_FAILURE(start_with_drive());
  TestEngine engine(a->socket(), kPiece, kPage), elsewhere(other->socket(), kPiece, kPage);
  // Of those that are set now some are there, so it gives pages again. Not all are acknowledged
  // while a member comes.
  ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Set(500, kPiece) == kPiece; }));
  ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Get(500, kPiece).hits == kPiece; }));
  EXPECT_EQ(engine.Get(0, kPiece).hits + elsewhere.Get(0, kPiece).hits, 0u);
}

// The one drive that has recorded it may be away when the other one is back.
TEST_F(DiskNodes, AClearThatOneOfTwoDrivesHasMissedFailsOnALoneNode) {
  two_drives_ = true;
  auto a = cluster_.Start("a");
  const uint16_t port = a->peer_port();
  const auto set_all = [&] {
    TestEngine engine(a->socket(), kPiece, kPage);
    for (uint64_t first = 0; first < kPiece; first += 4)
      ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Set(first, 4) == 4; }));
    ASSERT_TRUE(Eventually(kSoon, [&] { return DiskOf(*a)["pages"] == kPiece; }));
  };
  const auto clear = [&] {
    TestEngine engine(a->socket(), kPiece, kPage);
    return engine.client().Clear(1);
  };
  // "a" at the clear, and "a2" at the next start.
  const auto start_with_one = [&](const std::string& back, const std::string& away) {
    a.reset();
    if (!back.empty()) {
      ASSERT_NO_FATAL_FAILURE(BringBack(back));
    }
    ASSERT_NO_FATAL_FAILURE(TakeAway(away));
    a = cluster_.Start("a", true, port);
    ASSERT_TRUE(Eventually(kSoon, [&] {
      return std::ranges::any_of(DiskOf(*a)["devices"], [](const json& device) {
        return device.value("recovered", false);
      });
    }));
  };
  ASSERT_NO_FATAL_FAILURE(set_all());
  ASSERT_NO_FATAL_FAILURE(start_with_one("", "a"));
  const Status alone = clear();
  EXPECT_EQ(alone.code(), Code::kUnavailable);
  EXPECT_NE(alone.message().find("remove the files in disk-path"), std::string::npos)
      << alone.message();
  ASSERT_NO_FATAL_FAILURE(start_with_one("a", "a2"));
  {
    TestEngine engine(a->socket(), kPiece, kPage);
    EXPECT_TRUE(Eventually(kSoon, [&] { return engine.Get(0, kPiece).hits > 0; }))
        << "as it was said";
  }
  auto other = cluster_.Start("reader");
  ASSERT_NO_FATAL_FAILURE(start_with_one("a2", "a"));
  const Status kept = clear();
  EXPECT_TRUE(kept.ok()) << kept.message();
  ASSERT_NO_FATAL_FAILURE(start_with_one("a", "a2"));
  TestEngine engine(a->socket(), kPiece, kPage), elsewhere(other->socket(), kPiece, kPage);
  // Of those that are set now some are there, so it gives pages again.
  ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Set(500, kPiece) == kPiece; }));
  ASSERT_TRUE(Eventually(kSoon, [&] { return engine.Get(500, kPiece).hits == kPiece; }));
  EXPECT_EQ(engine.Get(0, kPiece).hits + elsewhere.Get(0, kPiece).hits, 0u);
}

TEST_F(DiskNodes, ANodeWhoseDriveCannotBeUsedServesFromMemory) {
  NodeConfig config = cluster_.Config("a");
  config.disk_paths = {"/dev/shm"};
  config.peer_port = TestCluster::FreePort();
  config.discovery_addr = "";
  auto node = Node::Start(config);
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  const json disk = DiskOf(**node);
  EXPECT_NE(disk["devices"][0]["why"].get<std::string>().find("/dev/shm"), std::string::npos)
      << disk;
  TestEngine engine((*node)->socket(), kPiece, kPage);
  EXPECT_EQ(engine.Set(0, kPiece), kPiece);
  EXPECT_EQ(engine.Get(0, kPiece).hits, kPiece);
}

// An update in place starts the new process while the old one may still be ending.
TEST_F(DiskNodes, ANodeWaitsForTheProcessBeforeToGiveUpItsDrive) {
  const std::string file = FolderOf("a") + "/" + disk::kFileName;
  UniqueFd before(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(before);
  ASSERT_EQ(flock(before.get(), LOCK_EX | LOCK_NB), 0);
  std::thread ending([&] {
    std::this_thread::sleep_for(500ms);
    before.Reset();
  });
  auto a = cluster_.Start("a");
  ending.join();
  const json device = DiskOf(*a)["devices"][0];
  EXPECT_EQ(device["on"], true) << device;
}

TEST_F(DiskNodes, ADriveThatAnotherProcessHasAtTheStartIsUsedLaterWithItsPages) {
  constexpr uint64_t kOthers = 10'000;  // pages of another tag
  const std::string file = FolderOf("a") + "/" + disk::kFileName;
  auto b = cluster_.Start("reader"), a = cluster_.Start("a");
  {
    TestEngine engine(a->socket(), kPiece, kPage);
    SetAll(&engine, *a, 0, 1);
    SetAll(&engine, *a, kOthers, 2);
  }
  a.reset();
  TestEngine other(b->socket(), kPiece, kPage);
  ASSERT_TRUE(Eventually(kSoon, [&] { return other.client().Clear(2).ok(); }));
  UniqueFd lock(open(file.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  a = cluster_.Start("a");  // waits for ten seconds
  const auto device = [&] { return DiskOf(*a)["devices"][0]; };
  ASSERT_EQ(device()["on"], false) << device();
  TestEngine engine(a->socket(), kPiece, kPage);
  EXPECT_EQ(engine.Get(0, kPiece).hits, 0u);
  lock.Reset();
  ASSERT_TRUE(Eventually(kSoon, [&] { return device()["recovered"] == true; })) << device();
  EXPECT_EQ(HitsOf(&engine), kPages);
  size_t cleared = 0;
  for (size_t at = 0; at < kPages; at += kPiece) cleared += engine.Get(kOthers + at, kPiece).hits;
  EXPECT_EQ(cleared, 0u);
}

}  // namespace
}  // namespace peercache
