#include "base/numa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <filesystem>
#include <thread>

#include "base/refused_syscall_testing.h"
#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(NumaTest, ReadsTheNodesOfTheMachine) {
  const testing::TempDir sysfs;
  const std::string nodes = "devices/system/node/";
  for (const char* node : {"node0", "node2", "node3"})
    std::filesystem::create_directories(sysfs.path() + "/" + nodes + node);
  sysfs.Write(nodes + "online", "0,2-3\n");
  sysfs.Write(nodes + "has_memory", "0,3\n");
  sysfs.Write(nodes + "node0/cpulist", "0-3,8-11\n");
  sysfs.Write(nodes + "node2/cpulist", "4-7\n");
  sysfs.Write(nodes + "node3/cpulist", "\n");  // memory only, as CXL

  const std::vector<NumaNode> read = ReadNumaNodes(sysfs.path());
  ASSERT_THAT(read, SizeIs(3));
  EXPECT_THAT(read[0].cpus, ElementsAre(0, 1, 2, 3, 8, 9, 10, 11));
  EXPECT_TRUE(read[0].has_memory);
  EXPECT_EQ(read[1].id, 2);
  EXPECT_FALSE(read[1].has_memory);
  EXPECT_THAT(read[2].cpus, IsEmpty());
  EXPECT_THAT(ReadNumaNodes(sysfs.path() + "/none"), IsEmpty());
}

const std::vector<NumaNode> kTwoNodes = {{0, {0, 1, 2, 3}, true}, {1, {4, 5, 6, 7}, true}};

TEST(PlanNumaTest, ThreadsStayWithinTheAllowedCpus) {
  const NumaPlan plan = PlanNuma(1, kTwoNodes, {2, 3, 4, 5});
  EXPECT_EQ(plan.memory_node, 1);
  EXPECT_THAT(plan.cpus, ElementsAre(4, 5));
  EXPECT_EQ(plan.threads_why, "CPUs 4-5 of NUMA node 1");
}

TEST(PlanNumaTest, NothingIsPinnedOutsideTheAllowedCpus) {
  const NumaPlan plan = PlanNuma(1, kTwoNodes, {0, 1});
  EXPECT_THAT(plan.cpus, IsEmpty());
  EXPECT_EQ(plan.memory_node, 1) << "memory can be on another node than threads";
  EXPECT_THAT(plan.threads_why, HasSubstr("none of NUMA node 1's CPUs (4-7) is among those "
                                          "allowed here (0-1)"));
}

TEST(PlanNumaTest, NothingIsWantedOrThereIsNoSuchNode) {
  const NumaPlan none = PlanNuma(-1, kTwoNodes, {0, 1});
  EXPECT_EQ(none.memory_node, -1);
  EXPECT_THAT(none.cpus, IsEmpty());
  const NumaPlan missing = PlanNuma(7, kTwoNodes, {0, 1});
  EXPECT_EQ(missing.memory_node, -1);
  EXPECT_THAT(missing.cpus, IsEmpty());
  EXPECT_EQ(missing.memory_why, "this machine has no NUMA node 7, only 0-1");
  EXPECT_THAT(PlanNuma(0, {}, {0}).memory_why, HasSubstr("its kernel does not name"));
}

TEST(PlanNumaTest, ANodeWithoutMemoryHasThreadsOnly) {
  const NumaPlan plan = PlanNuma(0, {{0, {0, 1}, false}}, {0, 1});
  EXPECT_EQ(plan.memory_node, -1);
  EXPECT_THAT(plan.memory_why, HasSubstr("has no memory"));
  EXPECT_THAT(plan.cpus, ElementsAre(0, 1));
}

TEST(ScopedCpusTest, KeepsThisThreadAndThoseItStartsThere) {
  const std::vector<int> before = AllowedCpus();
  ASSERT_THAT(before, Not(IsEmpty()));
  const std::vector<int> one = {before.back()};
  {
    const ScopedCpus here(one);
    EXPECT_TRUE(here.status().ok());
    EXPECT_EQ(AllowedCpus(), one);
    std::vector<int> inherited;
    std::thread([&] { inherited = AllowedCpus(); }).join();
    EXPECT_EQ(inherited, one);
  }
  EXPECT_EQ(AllowedCpus(), before);
}

TEST(ScopedCpusTest, DoesNothingWithoutCpus) {
  const std::vector<int> before = AllowedCpus();
  const ScopedCpus here({});
  EXPECT_TRUE(here.status().ok());
  EXPECT_EQ(AllowedCpus(), before);
}

TEST(ScopedCpusTest, SaysWhenItIsRefused) {
  std::thread([] {
    ASSERT_TRUE(testing::RefuseInThisThread(SYS_sched_setaffinity));
    const std::vector<int> before = AllowedCpus();
    const ScopedCpus here({before.front()});
    EXPECT_THAT(here.status().message(), HasSubstr("keeping a thread on CPUs"));
    EXPECT_EQ(AllowedCpus(), before);
  }).join();
}

}  // namespace
}  // namespace peercache
