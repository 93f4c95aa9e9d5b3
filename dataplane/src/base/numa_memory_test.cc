#include "base/numa_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "base/memory.h"
#include "base/numa.h"
#include "base/refused_syscall_testing.h"
#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kPage = 4096;
constexpr size_t kSize = 64 * kPage;

// The policy that the kernel has for an address.
int PolicyAt(const void* address) {
  int policy = -1;
  return ::syscall(SYS_get_mempolicy, &policy, nullptr, 0, address, MPOL_F_ADDR) == 0 ? policy : -1;
}

class NumaMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<NumaNode> nodes = ReadNumaNodes();
    // Unlike the tests of pure functions these need a kernel with NUMA, as every distribution's is.
    ASSERT_FALSE(nodes.empty());
    node_ = nodes.front().id;
    auto region = MappedRegion::Create("numa-test", kSize, HugePages::kOff);
    ASSERT_TRUE(region.ok());
    region_ = std::move(*region);
  }
  NumaSample Sample() { return SampleNuma(region_.bytes(), kPage, node_); }

  int node_ = 0;
  MappedRegion region_;
};

TEST_F(NumaMemoryTest, BoundPagesAreOnTheNode) {
  const NumaMemoryChoice choice = PlaceOnNuma(region_.bytes(), kPage, node_);
  EXPECT_EQ(choice.memory, NumaMemory::kBound) << choice.why;
  EXPECT_EQ(PolicyAt(region_.data()), MPOL_BIND);
  EXPECT_EQ(Sample().absent, 64u) << "nothing has been touched";
  std::memset(region_.data(), 1, kSize / 2);
  const NumaSample sample = Sample();
  EXPECT_EQ(sample.source, NumaSource::kMovePages);
  EXPECT_EQ(sample.on_node, 32u);
  EXPECT_EQ(sample.elsewhere, 0u);
  EXPECT_EQ(sample.absent, 32u);
}

TEST_F(NumaMemoryTest, PagesElsewhereAreSeen) {
  std::memset(region_.data(), 1, kSize);
  const NumaSample sample = SampleNuma(region_.bytes(), kPage, node_ + 1);
  EXPECT_EQ(sample.on_node, 0u);
  EXPECT_EQ(sample.elsewhere, 64u);
}

TEST_F(NumaMemoryTest, ASmallMappingIsSampledWhole) {
  std::memset(region_.data(), 1, 3 * kPage);
  const NumaSample sample = SampleNuma(region_.bytes().subspan(0, 3 * kPage), kPage, node_);
  EXPECT_EQ(sample.on_node, 3u);
  EXPECT_FALSE(SampleNuma(region_.bytes(), kPage, -1).known());
}

TEST_F(NumaMemoryTest, ARefusalOfTheKernelLeavesFirstTouch) {
  std::thread([this] {
    ASSERT_TRUE(testing::RefuseInThisThread(SYS_mbind));
    const NumaMemoryChoice choice = PlaceOnNuma(region_.bytes(), kPage, node_);
    EXPECT_EQ(choice.memory, NumaMemory::kFirstTouch);
    EXPECT_THAT(choice.why, AllOf(HasSubstr("Operation not permitted"), HasSubstr("CAP_SYS_NICE")));
  }).join();
  std::thread([this] {
    ASSERT_TRUE(testing::RefuseInThisThread(SYS_move_pages));
    EXPECT_FALSE(Sample().known());
    EXPECT_EQ(Sample().source, NumaSource::kRefused);
  }).join();
}

TEST_F(NumaMemoryTest, ANodeThatDoesNotExistLeavesFirstTouch) {
  const testing::TempDir sysfs;
  for (const int node : {999, 4096}) {
    const std::string name = "devices/system/node/node" + std::to_string(node);
    std::filesystem::create_directories(sysfs.path() + "/" + name);
    sysfs.Write(name + "/meminfo", "Node 999 MemFree:  8388608 kB\n");
    EXPECT_EQ(PlaceOnNuma(region_.bytes(), kPage, node, sysfs.path()).memory,
              NumaMemory::kFirstTouch);
  }
}

TEST_F(NumaMemoryTest, NoNodeIsNoPolicy) {
  EXPECT_EQ(PlaceOnNuma(region_.bytes(), kPage, -1).memory, NumaMemory::kAnywhere);
  EXPECT_EQ(PolicyAt(region_.data()), MPOL_DEFAULT);
}

TEST_F(NumaMemoryTest, MoreThanTheNodeHasIsPreferredNotBound) {
  const testing::TempDir sysfs;
  const std::string name = "devices/system/node/node" + std::to_string(node_);
  std::filesystem::create_directories(sysfs.path() + "/" + name);
  sysfs.Write(name + "/meminfo", "Node 0 MemTotal: 8192 kB\nNode 0 MemFree: 64 kB\n");
  EXPECT_EQ(PlaceOnNuma(region_.bytes(), kPage, node_, sysfs.path()).memory,
            NumaMemory::kPreferred);
  EXPECT_EQ(PolicyAt(region_.data()), MPOL_PREFERRED);
}

TEST(NumaFreeTest, CountsPagesOfTheKindThatIsAskedFor) {
  const testing::TempDir sysfs;
  const std::string node = "devices/system/node/node1/";
  std::filesystem::create_directories(sysfs.path() + "/" + node + "hugepages/hugepages-2048kB");
  sysfs.Write(node + "meminfo",
              "Node 1 MemTotal:       4096 kB\nNode 1 MemFree:        1024 kB\n"
              "Node 1 Active(file):    512 kB\nNode 1 Inactive(file):  256 kB\n");
  sysfs.Write(node + "hugepages/hugepages-2048kB/free_hugepages", "3\n");
  EXPECT_EQ(ReadNumaFree(1, kPage, sysfs.path()).bytes, 1792u << 10);
  EXPECT_EQ(ReadNumaFree(1, 2 << 20, sysfs.path()).bytes, 6u << 20);
  EXPECT_EQ(ReadNumaFree(1, 1 << 30, sysfs.path()).bytes, 0u);
}

TEST(ChooseNumaMemoryTest, BindsWhatFits) {
  EXPECT_EQ(ChooseNumaMemory(-1, 1, {}).memory, NumaMemory::kAnywhere);
  EXPECT_EQ(ChooseNumaMemory(1, 4 << 20, {4 << 20, true}).memory, NumaMemory::kBound);
  // Of small pages, whoever runs there needs some too.
  EXPECT_EQ(ChooseNumaMemory(1, 4 << 20, {4 << 20, false}).memory, NumaMemory::kPreferred);
  const NumaMemoryChoice short_of_pages = ChooseNumaMemory(1, 4 << 20, {2 << 20, true});
  EXPECT_EQ(short_of_pages.memory, NumaMemory::kPreferred);
  EXPECT_EQ(short_of_pages.why,
            "NUMA node 1 has 2Mi of 4Mi free in huge pages: the rest comes from other nodes; raise "
            "nr_hugepages in /sys/devices/system/node/node1");
}

}  // namespace
}  // namespace peercache
