#include "pool/numa_home.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cstring>
#include <thread>

#include "base/refused_syscall_testing.h"

namespace peercache {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(NumaOptionTest, IsAutoOffOrANumber) {
  EXPECT_EQ(*ParseNumaOption("auto"), kNumaAuto);
  EXPECT_EQ(*ParseNumaOption("off"), kNumaOff);
  EXPECT_EQ(*ParseNumaOption("3"), 3);
  for (const char* text : {"", "-1", "1x", "on", "1024"}) {
    const auto option = ParseNumaOption(text);
    ASSERT_FALSE(option.ok()) << text;
    EXPECT_THAT(option.status().message(), HasSubstr("none of auto, off"));
  }
}

TEST(ChooseNumaNodeTest, IsThatOfTheRails) {
  const NumaRail near[] = {{"mlx5_0 port 1", 1}, {"mlx5_1 port 1", 1}, {"rxe0 port 1", -1}};
  EXPECT_EQ(ChooseNumaNode(kNumaAuto, near).node, 1);
  EXPECT_EQ(ChooseNumaNode(kNumaAuto, near).why,
            "that of mlx5_0 port 1, mlx5_1 port 1, rxe0 port 1");
  EXPECT_EQ(ChooseNumaNode(0, near).node, 0) << "an order goes before the rails";
  EXPECT_EQ(ChooseNumaNode(kNumaOff, near).node, -1);
}

TEST(ChooseNumaNodeTest, IsNoneWithoutOneThatAllShare) {
  EXPECT_EQ(ChooseNumaNode(kNumaAuto, {}).node, -1);
  const NumaRail unknown[] = {{"rxe0 port 1", -1}};
  EXPECT_EQ(ChooseNumaNode(kNumaAuto, unknown).node, -1);
  EXPECT_THAT(ChooseNumaNode(kNumaAuto, unknown).why, HasSubstr("rxe0 port 1 is not known"));
  const NumaRail apart[] = {{"mlx5_0 port 1", 0}, {"mlx5_1 port 1", 1}};
  EXPECT_EQ(ChooseNumaNode(kNumaAuto, apart).node, -1);
  EXPECT_THAT(ChooseNumaNode(kNumaAuto, apart).why, HasSubstr("on NUMA nodes 0, 1"));
}

TEST(NumaHomeTest, PutsMemoryAndThreadsOnTheNode) {
  const std::vector<NumaNode> nodes = ReadNumaNodes();
  ASSERT_FALSE(nodes.empty());
  NumaHome home({nodes[0].id, "the test"});
  const ScopedCpus here(home.plan().cpus);
  auto region = MappedRegion::Create("home", 1 << 20, HugePages::kOff, home.plan().memory_node);
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  home.Settled(here.status(), *region);
  std::memset(region->data(), 1, region->size());
  const NumaStats stats = home.stats();
  EXPECT_EQ(stats.wish.node, nodes[0].id);
  EXPECT_EQ(stats.memory.memory, NumaMemory::kBound) << stats.memory.why;
  EXPECT_EQ(stats.cpus, AllowedCpus());
  EXPECT_EQ(stats.pool.on_node, 64u);
}

TEST(NumaHomeTest, SaysWhatCouldNotBeHad) {
  auto region = MappedRegion::Create("home", 1 << 20, HugePages::kOff);
  ASSERT_TRUE(region.ok());
  NumaHome home({999, "the test"});
  home.Settled({}, *region);
  EXPECT_EQ(home.stats().memory.memory, NumaMemory::kAnywhere);
  EXPECT_THAT(home.stats().memory.why, HasSubstr("no NUMA node 999"));
  EXPECT_THAT(home.stats().cpus, IsEmpty());

  NumaHome refused({ReadNumaNodes()[0].id, "the test"});
  refused.Settled(Unavailable("keeping a thread on CPUs 0: Operation not permitted"), *region);
  EXPECT_THAT(refused.stats().cpus, IsEmpty());
  EXPECT_THAT(refused.stats().threads_why, HasSubstr("not permitted"));
}

// As in a container. What the filter refuses is refused to this thread alone.
TEST(NumaHomeTest, AsksNumaMapsOnceWhereTheKernelMayNotBeAsked) {
  std::thread([] {
    ASSERT_TRUE(testing::RefuseInThisThread(SYS_move_pages));
    const int node = ReadNumaNodes()[0].id;
    auto region = MappedRegion::Create("home", 1 << 20, HugePages::kOff);
    ASSERT_TRUE(region.ok());
    NumaHome home({node, "the test"}), far({node + 500, "the test"});
    home.Settled({}, *region);
    far.Settled({}, *region);
    EXPECT_EQ(home.stats().pool.source, NumaSource::kRefused);
    std::memset(region->data(), 1, region->size() / 2);
    home.Touched(*region);
    EXPECT_FALSE(home.stats().pool.known()) << "half of it may yet come from anywhere";
    std::memset(region->data(), 1, region->size());
    home.Touched(*region);
    far.Touched(*region);
    EXPECT_EQ(home.stats().pool.source, NumaSource::kNumaMaps);
    EXPECT_EQ(home.stats().pool.on_node + home.stats().pool.elsewhere, 64u);
    EXPECT_EQ(far.stats().pool.elsewhere, 64u);
  }).join();
}

TEST(NumaHomeTest, AsksTheKernelWhereItMay) {
  const int node = ReadNumaNodes()[0].id;
  auto region = MappedRegion::Create("home", 1 << 20, HugePages::kOff, node);
  ASSERT_TRUE(region.ok());
  NumaHome home({node, "the test"});
  home.Settled({}, *region);
  std::memset(region->data(), 1, region->size());
  home.Touched(*region);
  EXPECT_EQ(home.stats().pool.source, NumaSource::kMovePages);
}

}  // namespace
}  // namespace peercache
