#include "base/prefault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <future>
#include <vector>

#include "base/memory.h"
#include "base/no_thread_testing.h"

namespace peercache {
namespace {

size_t ResidentPages(std::span<std::byte> bytes) {
  std::vector<unsigned char> resident((bytes.size() + 4095) / 4096);
  EXPECT_EQ(mincore(bytes.data(), bytes.size(), resident.data()), 0);
  size_t count = 0;
  for (const unsigned char r : resident) count += r & 1;
  return count;
}

TEST(PrefaultTest, BringsInEveryPage) {
  auto region = MappedRegion::Create("prefault-test", 80 << 20, HugePages::kOff);
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  ASSERT_EQ(ResidentPages(region->bytes()), 0u);
  Prefault prefault(region->bytes(), Prefault::kAll);
  while (!prefault.finished()) std::this_thread::yield();
  EXPECT_EQ(prefault.done(), region->size());
  EXPECT_EQ(ResidentPages(region->bytes()), region->size() / 4096);
}

TEST(PrefaultTest, SaysWhenEveryPageIsThere) {
  auto region = MappedRegion::Create("prefault-test", 40 << 20, HugePages::kOff);
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  size_t resident = 0;
  {
    std::promise<void> done;
    Prefault prefault(region->bytes(), Prefault::kAll, [&] {
      resident = ResidentPages(region->bytes());
      done.set_value();
    });
    done.get_future().wait();
  }
  EXPECT_EQ(resident, region->size() / 4096);
  // Not of memory that cannot be brought in.
  void* const data = mmap(nullptr, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  bool called = false;
  {
    Prefault prefault({static_cast<std::byte*>(data), 1 << 20}, Prefault::kAll,
                      [&] { called = true; });
    while (!prefault.finished()) std::this_thread::yield();
  }
  EXPECT_FALSE(called);
  munmap(data, 1 << 20);
}

TEST(PrefaultTest, WithoutAThreadTheCallerBringsInWhatIsSmall) {
  const testing::NoMoreThreads none;
  auto small = MappedRegion::Create("prefault-test", 4096, HugePages::kOff);
  auto large = MappedRegion::Create("prefault-test", 80 << 20, HugePages::kOff);
  ASSERT_TRUE(small.ok() && large.ok());
  bool called = false;
  const Prefault brought(small->bytes(), Prefault::kAll, [&] { called = true; });
  EXPECT_TRUE(brought.finished() && called);
  EXPECT_EQ(ResidentPages(small->bytes()), 1u);
  const Prefault left(large->bytes(), Prefault::kAll, [] { FAIL() << "nothing was brought in"; });
  EXPECT_TRUE(left.finished());
  EXPECT_EQ(ResidentPages(large->bytes()), 0u);
}

TEST(PrefaultTest, WhoMayStartNoThreadIsAsWhoGetsNone) {
  auto small = MappedRegion::Create("prefault-test", 4096, HugePages::kOff);
  auto large = MappedRegion::Create("prefault-test", 80 << 20, HugePages::kOff);
  ASSERT_TRUE(small.ok() && large.ok());
  const Status none = ResourceExhausted("a test");
  const Prefault brought(small->bytes(), Prefault::kAll, {}, none);
  const Prefault left(large->bytes(), Prefault::kAll, {}, none);
  EXPECT_TRUE(brought.finished() && left.finished());
  EXPECT_EQ(ResidentPages(small->bytes()), 1u);
  EXPECT_EQ(ResidentPages(large->bytes()), 0u);
}

TEST(PrefaultTest, UnalignedRangesAreCovered) {
  auto region = MappedRegion::Create("prefault-test", 1 << 20, HugePages::kOff);
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  Prefault prefault(region->bytes().subspan(5000, 10000), Prefault::kAll);  // pages 1 to 3
  while (!prefault.finished()) std::this_thread::yield();
  EXPECT_EQ(ResidentPages(region->bytes()), 3u);
}

TEST(PrefaultTest, AFileThatIsTruncatedIsNoFault) {
  const int fd = memfd_create("prefault-test", 0);
  ASSERT_EQ(ftruncate(fd, 64 << 20), 0);
  void* data = mmap(nullptr, 64 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(data, MAP_FAILED);
  ASSERT_EQ(ftruncate(fd, 1 << 20), 0);
  {
    Prefault prefault({static_cast<std::byte*>(data), 64 << 20}, fd);
    while (!prefault.finished()) std::this_thread::yield();
    EXPECT_LT(prefault.done(), size_t{64} << 20);
  }
  munmap(data, 64 << 20);
  close(fd);
}

TEST(PrefaultTest, HolesOfAnothersFileStayHoles) {
  auto region = MappedRegion::Create("prefault-test", 96 << 20, HugePages::kOff);
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  auto other =
      MappedRegion::Map(UniqueFd(dup(region->fd())), region->size(), MapAccess::kReadWrite);
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  region->data()[10 * 4096] = std::byte{1};
  region->data()[(64 << 20) + 5] = std::byte{1};
  Prefault prefault(other->bytes(), other->fd());
  while (!prefault.finished()) std::this_thread::yield();
  EXPECT_EQ(ResidentPages(region->bytes()), 2u);
}

TEST(PrefaultTest, StopsWhenItIsDestroyed) {
  auto region = MappedRegion::Create("prefault-test", 256 << 20, HugePages::kOff);
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  { Prefault prefault(region->bytes(), Prefault::kAll); }
  EXPECT_LT(ResidentPages(region->bytes()), region->size() / 4096);
}

}  // namespace
}  // namespace peercache
