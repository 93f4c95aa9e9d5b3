// Tenants of a node with a disk: pages that come back from it count for the tenant whose they are,
// whoever asks for them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::Eventually;
using testing::TempDir;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPool = 32 << 20, kPage = 64 << 10, kPiece = 64;
constexpr size_t kFlood = 768;       // pages, half as many again as fit into the pool
constexpr size_t kWorkingSet = 128;  // a quarter of the pool
constexpr uint64_t kFloodFrom = 100'000;
constexpr auto kSoon = testing::kEndsAHang;

json StatusOf(const Node& node) { return json::parse(node.StatusJson()); }
uint64_t PoolBytesOf(const Node& node, const std::string& tenant) {
  const json status = StatusOf(node);
  for (const auto& t : status["tenants"])
    if (t["name"] == tenant) return t["pool_bytes"];
  return 0;
}

// "holder" has a disk; on all nodes tenant "hog" has a socket beside that of the shared tenant.
class DiskTenants : public ::testing::Test {
 protected:
  std::unique_ptr<Node> Start(const std::string& id, bool wait = true, uint16_t port = 0) {
    std::filesystem::create_directories(Folder(id) + "/hog");
    std::filesystem::create_directories(disks_.path() + "/" + id);
    return cluster_.Start(id, wait, port);
  }
  std::string Folder(const std::string& node) const { return folders_.path() + "/" + node; }
  TestEngine Hog(const std::string& node) const {
    return TestEngine(fmt::format("{}/hog/{}.sock", Folder(node), node), kPiece, kPage);
  }
  // All pages of the hog are on disk afterwards, and the working set of the other one in the pool.
  void Fill(const Node& holder, TestEngine* hog, TestEngine* quiet) {
    for (size_t at = 0; at < kFlood; at += kPiece) {
      ASSERT_TRUE(Eventually(kSoon, [&] { return hog->Set(kFloodFrom + at, kPiece) == kPiece; }));
      ASSERT_TRUE(
          Eventually(kSoon, [&] { return StatusOf(holder)["disk"]["waiting_pages"] == 0; }));
    }
    ASSERT_TRUE(Eventually(kSoon, [&] { return StatusOf(holder)["disk"]["pages"] >= kFlood; }));
    for (size_t at = 0; at < kWorkingSet; at += kPiece)
      ASSERT_TRUE(Eventually(kSoon, [&] { return quiet->Set(at, kPiece) == kPiece; }));
  }
  // Twice, so that at the end nearly all in the pool has come from disk. A few at a time, which
  // also a slow machine reads within a lease; what comes too late is there when it is asked for
  // again.
  static size_t ReadFlood(TestEngine* hog) {
    constexpr size_t kFew = 8;
    const TimePoint deadline = Clock::now() + kSoon;
    size_t hits = 0;
    for (int round = 0; round < 2; ++round) {
      for (size_t at = 0; at < kFlood; at += kFew) {
        size_t here = 0;
        (void)Eventually(std::max<Duration>(deadline - Clock::now(), 0s), [&] {
          here = hog->Get(kFloodFrom + at, kFew).hits;
          return here == kFew;
        });
        hits += here;
      }
    }
    return hits;
  }
  // How many pages of the working set are still in memory.
  static size_t Kept(const Node& holder, TestEngine* quiet) {
    const auto local = [&] {
      return StatusOf(holder)["counters"]["read_local_hits"].get<uint64_t>();
    };
    const uint64_t before = local();
    for (size_t at = 0; at < kWorkingSet; at += kPiece) (void)quiet->Get(at, kPiece);
    return local() - before;
  }

  TempDir folders_, disks_{"/var/tmp"};
  TestCluster cluster_{[this](NodeConfig* c) {
    c->tenants_dir = Folder(c->node_id);
    c->pool_bytes = kPool;
    c->lease = 200ms;
    c->promotion_percent = 0;
    if (c->node_id != "holder") return;
    c->disk_paths = {disks_.path() + "/" + c->node_id};
    c->disk_bytes = uint64_t{520} << 20;
    c->disk_write_budget = "unlimited";
  }};
};

TEST_F(DiskTenants, PagesThatComeBackCountForWhoGetsThem) {
  const auto holder = Start("holder");
  TestEngine hog = Hog("holder"), quiet(holder->socket(), kPiece, kPage);
  Fill(*holder, &hog, &quiet);
  EXPECT_GT(ReadFlood(&hog), kFlood) << "it is a flood";
  EXPECT_GT(StatusOf(*holder)["disk"]["loaded_pages"], kPool / kPage) << "it comes from disk";
  EXPECT_GT(PoolBytesOf(*holder, "hog"), kPool / 3);
  EXPECT_GE(Kept(*holder, &quiet), kWorkingSet * 95 / 100);
}

TEST_F(DiskTenants, PagesThatOtherNodesAskForCountForWhoSetThem) {
  const auto holder = Start("holder"), other = Start("other");
  {
    TestEngine hog = Hog("holder"), quiet(holder->socket(), kPiece, kPage);
    Fill(*holder, &hog, &quiet);
  }
  TestEngine hog = Hog("other"), quiet(holder->socket(), kPiece, kPage);
  EXPECT_GT(ReadFlood(&hog), kFlood) << "it is a flood";
  EXPECT_GT(StatusOf(*holder)["disk"]["loaded_pages"], kPool / kPage) << "it comes from disk";
  EXPECT_GT(PoolBytesOf(*holder, "hog"), kPool / 3);
  EXPECT_GE(Kept(*holder, &quiet), kWorkingSet * 95 / 100);
}

// The node that comes back does not know whose the pages on its drive are before they are asked
// for.
TEST_F(DiskTenants, PagesOfTheProcessBeforeCountForWhoGetsThem) {
  auto holder = Start("holder");
  const auto other = Start("other");
  {
    TestEngine hog = Hog("holder"), quiet(holder->socket(), kPiece, kPage);
    Fill(*holder, &hog, &quiet);
  }
  const uint16_t port = holder->peer_port();
  holder.reset();
  holder = Start("holder", true, port);
  ASSERT_TRUE(Eventually(kSoon, [&] { return StatusOf(*holder)["disk"]["pages"] >= kFlood; }));
  EXPECT_EQ(PoolBytesOf(*holder, "hog"), 0u);
  TestEngine hog = Hog("holder");
  // An exists brings them too.
  EXPECT_TRUE(Eventually(kSoon, [&] { return hog.Exists(kFloodFrom, kPiece) == kPiece; }));
  EXPECT_TRUE(Eventually(kSoon, [&] { return PoolBytesOf(*holder, "hog") >= kPiece * kPage; }));
  EXPECT_GT(ReadFlood(&hog), kFlood / 2);
  EXPECT_GT(PoolBytesOf(*holder, "hog"), kPool / 3);
  EXPECT_EQ(PoolBytesOf(*holder, ""), 0u) << "none counts for the shared tenant";
}

}  // namespace
}  // namespace peercache
