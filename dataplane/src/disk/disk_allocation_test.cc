// What runs for every page allocates nothing.

#include <gtest/gtest.h>

#include "base/allocations_testing.h"
#include "base/checksum.h"
#include "disk/disk_testing.h"

namespace peercache::disk {
namespace {

using namespace testing;  // NOLINT: names of the tests' own helpers
using peercache::testing::allocations;

TEST(DiskAllocationTest, PuttingFindingAndReadingAllocateNothing) {
  DiskFolder folder;
  DiskOptions options = SmallOptions({folder.path()});
  options.io = IoKind::kAuto;
  const Result<std::unique_ptr<DiskTier>> opened = DiskTier::Open(options, nullptr);
  ASSERT_TRUE(opened.ok());
  DiskTier& tier = **opened;
  ASSERT_TRUE(Eventually([&] { return tier.recovered(); }));
  constexpr uint64_t kPages = 60, kStride = 20480;
  const std::vector<std::byte> bytes = BytesOf(0, 0, 20000);
  const uint64_t checksum = Checksum(bytes);
  std::vector<Key> keys;
  for (uint64_t i = 0; i < kPages; ++i) keys.push_back(KeyOf(i));
  std::vector<DiskPage> found(kPages);
  AlignedBuffer memory(kPages * kStride);
  std::vector<DiskRead> reads(kPages);
  std::vector<DiskRead*> batch;
  for (DiskRead& read : reads) batch.push_back(&read);
  const TimePoint deadline = Clock::now() + kEndsAHang;

  const uint64_t before = allocations;  // of all threads: of the device's, too
  for (const Key& key : keys)
    while (tier.Put({.key = key, .tag = 1, .checksum = checksum}, bytes).what !=
           PutResult::What::kTaken)
      std::this_thread::sleep_for(milliseconds(1));
  ASSERT_TRUE(tier.Flush(deadline).ok());
  tier.Find(keys, found);
  for (uint64_t i = 0; i < kPages; ++i) {
    reads[i].key = keys[i];
    reads[i].memory = memory.bytes().subspan(i * kStride, 20000);
  }
  EXPECT_EQ(tier.Read(batch, deadline), 0u);
  EXPECT_EQ(allocations, before);
  for (const DiskRead& read : reads) EXPECT_EQ(read.outcome, ReadOutcome::kHit);
}

}  // namespace
}  // namespace peercache::disk
