#include "base/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace peercache {
namespace {

using ::testing::HasSubstr;

// A /proc and a /sys/fs/cgroup of the test's own.
class MemoryLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) /
            ("limit-" + std::to_string(::getpid()) + "-" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    Write("proc/meminfo", "MemTotal:       16384 kB\nMemFree:        1024 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  MemoryLimit Read() { return ReadMemoryLimit(root_ / "proc", root_ / "cgroup"); }
  std::filesystem::path root_;
};

TEST_F(MemoryLimitTest, IsTheMachinesMemoryWithoutCgroups) {
  EXPECT_EQ(Read().bytes, 16u << 20);
  EXPECT_THAT(Read().source, HasSubstr("MemTotal"));
}

TEST_F(MemoryLimitTest, IsTheSmallestOfAllAncestors) {
  Write("proc/self/cgroup", "0::/pods/pod1/main\n");
  Write("cgroup/pods/pod1/main/memory.max", "max\n");
  Write("cgroup/pods/pod1/memory.max", "1048576\n");
  Write("cgroup/pods/memory.max", "4194304\n");
  EXPECT_EQ(Read().bytes, 1u << 20);
  EXPECT_THAT(Read().source, HasSubstr("/pods/pod1/"));
}

TEST_F(MemoryLimitTest, OfAContainerIsAtTheRootOfItsNamespace) {
  Write("proc/self/cgroup", "0::/\n");
  Write("cgroup/memory.max", "2097152\n");
  EXPECT_EQ(Read().bytes, 2u << 20);
}

TEST_F(MemoryLimitTest, KnowsVersion1) {
  Write("proc/self/cgroup", "9:memory:/docker/x\n");
  Write("cgroup/memory/memory.limit_in_bytes", "3145728\n");
  EXPECT_EQ(Read().bytes, 3u << 20);
}

TEST_F(MemoryLimitTest, NothingReadableIsNoLimit) {
  EXPECT_EQ(ReadMemoryLimit(root_ / "none", root_ / "none").bytes, UINT64_MAX);
}

TEST_F(MemoryLimitTest, OfThisMachineIsReadable) {
  EXPECT_GT(ReadMemoryLimit().bytes, 1u << 20);
  EXPECT_LT(ReadMemoryLimit().bytes, UINT64_MAX);
}

TEST(CheckFits, NamesSizeLimitAndFix) {
  const MemoryLimit limit{uint64_t{8} << 30, "memory.max of cgroup /pods/"};
  EXPECT_TRUE(CheckFits("pool", uint64_t{8} << 30, limit).ok());
  Status status = CheckFits("pool", uint64_t{32} << 30, limit);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("pool: 32Gi"));
  EXPECT_THAT(status.message(), HasSubstr("8Gi"));
  EXPECT_THAT(status.message(), HasSubstr("memory.max of cgroup /pods/"));
  EXPECT_THAT(status.message(), HasSubstr("choose a smaller size"));
}

TEST_F(MemoryLimitTest, ReadsHugePageCounts) {
  Write("hugepages/hugepages-2048kB/nr_hugepages", "100\n");
  Write("hugepages/hugepages-2048kB/free_hugepages", "60\n");
  Write("hugepages/hugepages-2048kB/resv_hugepages", "10\n");
  const HugePageCounts counts = ReadHugePageCounts(2 << 20, root_ / "hugepages");
  EXPECT_EQ(counts.total, 100u);
  EXPECT_EQ(counts.available(), 50u);
  EXPECT_EQ(ReadHugePageCounts(1 << 30, root_ / "hugepages").available(), 0u);
}

TEST(CheckHugePages, NamesSizeCountsAndTheCommandThatHelps) {
  const HugePageCounts counts{.total = 100, .free = 60, .reserved = 10};
  const uint64_t page = 2 << 20;
  EXPECT_TRUE(CheckHugePages("pool", 50 * page, page, counts).ok());
  Status status = CheckHugePages("pool", 51 * page, page, counts);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("102Mi need 51 huge pages of 2Mi, 50 are available"));
  EXPECT_THAT(status.message(), HasSubstr("echo 101 > /sys/kernel/mm/hugepages/hugepages-2048kB"));
}

}  // namespace
}  // namespace peercache
