#include "node/replicas.h"

#include <gtest/gtest.h>

#include <numeric>

#include "pool/pool_testing.h"

namespace peercache {
namespace {

constexpr size_t kPage = 64 * kKiB;

// Pages 0..count-1 as an engine has received them.
struct Received {
  explicit Received(uint64_t first, size_t count)
      : memory(count * kPage), ok(count, 1), which(count) {
    std::iota(which.begin(), which.end(), size_t{0});
    for (size_t i = 0; i < count; ++i) {
      keys.push_back(KeyOf(first + i));
      segments.push_back(std::span(memory).subspan(i * kPage, kPage));
      Fill(segments.back(), keys.back());
    }
    from = {segments, 1};
  }
  std::vector<std::byte> memory;
  std::vector<uint8_t> ok;
  std::vector<size_t> which;
  std::vector<Key> keys;
  std::vector<Bytes> segments;
  Destinations from;
};

size_t Found(Replicas& replicas, const Received& pages) {
  std::vector<PagePin> pins(pages.keys.size());
  replicas.Find(pages.keys, pages.which, pins);
  size_t found = 0;
  for (size_t i = 0; i < pins.size(); ++i) {
    if (!pins[i]) continue;
    EXPECT_TRUE(IsPageOf(pins[i], pages.keys[i]));
    ++found;
  }
  return found;
}

void Keep(Replicas& replicas, const Received& pages) {
  replicas.Keep(pages.keys, pages.which, pages.ok, pages.from, replicas.epoch());
}

TEST(ReplicasTest, APageThatIsFetchedAgainIsKept) {
  Replicas replicas(MakePool(16 * kMiB));
  const Received pages(1, 4), others(100, 4);
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 0u) << "once is not enough";
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 4u);
  EXPECT_EQ(Found(replicas, others), 0u);
  EXPECT_TRUE(replicas.Contains(pages.keys[0]));
}

TEST(ReplicasTest, WhileEnginesShareEverythingFetchedIsKept) {
  Replicas replicas(MakePool(16 * kMiB));
  for (int i = 0; i < 8; ++i) replicas.Observe(7, 1);
  const Received pages(1, 4);
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 4u);
  for (int i = 0; i < 32; ++i) replicas.Observe(0, 8);
  const Received later(50, 4);
  Keep(replicas, later);
  EXPECT_EQ(Found(replicas, later), 0u) << "sharing is over";
}

TEST(ReplicasTest, TheOldestGiveWayAtOnceAndPinnedOnesStay) {
  Replicas replicas(MakePool(8 * kMiB));
  for (int i = 0; i < 8; ++i) replicas.Observe(1, 0);
  const Received first(0, 8);
  Keep(replicas, first);
  std::vector<PagePin> pins(first.keys.size());
  replicas.Find(first.keys, first.which, pins);
  for (uint64_t round = 1; round < 40; ++round) {
    const Received pages(round * 1000, 16);
    Keep(replicas, pages);
    ASSERT_EQ(Found(replicas, pages), 16u);
  }
  for (size_t i = 0; i < pins.size(); ++i) EXPECT_TRUE(IsPageOf(pins[i], first.keys[i]));
  EXPECT_LE(replicas.stats().used_bytes, 8 * kMiB);
}

TEST(ReplicasTest, MissesAreNotKept) {
  Replicas replicas(MakePool(8 * kMiB));
  for (int i = 0; i < 8; ++i) replicas.Observe(1, 0);
  Received pages(1, 2);
  pages.ok[1] = 0;
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 1u);
}

TEST(ReplicasTest, NothingReadBeforeAClearIsThereAfterIt) {
  Replicas replicas(MakePool(8 * kMiB));
  for (int i = 0; i < 8; ++i) replicas.Observe(1, 0);
  const Received pages(1, 4), late(10, 4);
  Keep(replicas, pages);
  const uint64_t before = replicas.epoch();
  replicas.Clear();
  EXPECT_EQ(Found(replicas, pages), 0u);
  replicas.Keep(late.keys, late.which, late.ok, late.from, before);
  EXPECT_EQ(Found(replicas, late), 0u);
}

TEST(ReplicasTest, WithoutMemoryItKeepsNothing) {
  EXPECT_EQ(Replicas::ShareOf(512 * kMiB, 10), 0u);
  EXPECT_EQ(Replicas::ShareOf(4096 * kMiB, 0), 0u);
  EXPECT_EQ(Replicas::ShareOf(1024 * kMiB, 10), 102 * kMiB);
  Replicas replicas(nullptr);
  const Received pages(1, 4);
  Keep(replicas, pages);
  Keep(replicas, pages);
  EXPECT_EQ(Found(replicas, pages), 0u);
  EXPECT_FALSE(replicas.Contains(pages.keys[0]));
  replicas.Clear();
}

}  // namespace
}  // namespace peercache
