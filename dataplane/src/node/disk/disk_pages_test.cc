#include "node/disk/disk_pages.h"

#include <gtest/gtest.h>

#include "base/no_thread_testing.h"
#include "base/temp_dir_testing.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

TEST(DiskPagesTest, WhereNoThreadCanBeStartedTheNodeServesFromMemoryAndSaysWhy) {
  const testing::TempDir folder("/var/tmp");
  disk::DiskOptions options;
  options.paths = {folder.path()};
  options.bytes = uint64_t{520} << 20;
  options.cluster = "test";
  auto disk = DiskPages::Open(options, std::chrono::seconds(1));
  ASSERT_TRUE(disk.ok()) << disk.status().ToString();
  ASSERT_TRUE((*disk)->report().tier.devices[0].on) << (*disk)->report().tier.devices[0].why;
  auto pool = Pool::Create(
      {.bytes = 8 * kMiB, .huge_pages = HugePages::kOff, .generations = (*disk)->generations()});
  ASSERT_TRUE(pool.ok()) << pool.status().ToString();
  Room room(pool->get());
  {
    const testing::NoMoreThreads none;
    (*disk)->Start(pool->get(), &room);
  }
  const disk::DeviceHealth device = (*disk)->report().tier.devices[0];
  EXPECT_FALSE(device.on);
  EXPECT_NE(device.why.find("no thread could be started"), std::string::npos) << device.why;

  // What a node does with it from then on.
  auto slot = room.Reserve(kKiB, Clock::now());
  ASSERT_TRUE(slot.ok()) << slot.status().ToString();
  bool duplicate = false;
  const PagePin pin = (*pool)->Commit(std::move(*slot), KeyOf(1), 1, 0, &duplicate);
  ASSERT_TRUE(pin);
  (*disk)->Keep(std::array{PageAt{pin.offset(), pin.header().generation, KeyOf(1)}}, false,
                TenantNumber{0});
  EXPECT_EQ((*disk)->report().waiting_pages, 0u);
  const std::array keys{KeyOf(1), KeyOf(2)};
  std::array<PagePin, 2> pins;
  (*disk)->Load(keys, pins, Clock::now() + std::chrono::seconds(1), TenantNumber{0});
  EXPECT_FALSE(pins[0] || pins[1]);
  std::array<uint8_t, 2> coming{};
  (*disk)->Want(keys, TenantNumber{0}, coming);
  EXPECT_EQ(coming[0] + coming[1], 0);
  (*disk)->Clear(1, 1, {});
  (*disk)->RecordClears();
  EXPECT_TRUE((*disk)->unrecorded()) << "the drive is off, and its file is there";
  disk->reset();  // before the pool, as a node does
}

}  // namespace
}  // namespace peercache
