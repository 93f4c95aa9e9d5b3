#include "base/numa_maps.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "base/memory.h"
#include "base/numa.h"
#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

// A mapping as the texts below have it; nobody looks into it.
std::span<const std::byte> Mapping(uintptr_t address, size_t size) {
  return {reinterpret_cast<const std::byte*>(address), size};
}
constexpr uintptr_t kPool = 0x7f2a40000000;

// As printed by fs/proc/task_mmu.c, with what stands around a pool in a process.
const std::string kBefore =
    "55f7ac7e6000 default file=/usr/bin/peercached mapped=2 N0=2 kernelpagesize_kB=4\n"
    "55f7ea208000 default heap anon=4 dirty=4 active=0 N1=4 kernelpagesize_kB=4\n"
    "7f2a3fe00000 default file=/memfd:engine\\040N1=9\\040(deleted) dirty=9 N1=9 "
    "kernelpagesize_kB=4\n";
const std::string kAfter =
    "7f2a80000000 prefer:1 anon=1024 dirty=1024 N1=1024 kernelpagesize_kB=4\n"
    "7ffd1c5e0000 default stack anon=5 dirty=5 N1=5 kernelpagesize_kB=4\n"
    "7ffd1c5f0000 default\n";

NumaSample Sum(const std::string& lines, size_t size, int node = 0) {
  return SumNumaMaps(kBefore + lines + kAfter, Mapping(kPool, size), node);
}
void ExpectSample(const NumaSample& sample, size_t on_node, size_t elsewhere, size_t absent) {
  EXPECT_EQ(sample.source, NumaSource::kNumaMaps);
  EXPECT_EQ(sample.on_node, on_node);
  EXPECT_EQ(sample.elsewhere, elsewhere);
  EXPECT_EQ(sample.absent, absent);
}

TEST(SumNumaMapsTest, SmallPagesOfAFileInSharedMemory) {
  const std::string pool =
      "7f2a40000000 default file=/memfd:peercache-pool\\040(deleted) dirty=262144 active=0 "
      "N0=262144 kernelpagesize_kB=4\n";
  ExpectSample(Sum(pool, 1 << 30), 64, 0, 0);
  ExpectSample(Sum(pool, 1 << 30, 1), 0, 64, 0);
}

TEST(SumNumaMapsTest, HugePagesCountAsWhatTheyHold) {
  const std::string pool =
      "7f2a40000000 bind:0 file=/memfd:peercache-pool\\040(deleted) huge dirty=512 N0=384 N1=128 "
      "kernelpagesize_kB=2048\n";
  ExpectSample(Sum(pool, 1 << 30), 48, 16, 0);
  const std::string gigantic =
      "7f2a40000000 bind:1 file=/memfd:peercache-pool\\040(deleted) huge dirty=1 N1=1 "
      "kernelpagesize_kB=1048576\n";
  ExpectSample(Sum(gigantic, 1 << 30), 0, 64, 0);
}

TEST(SumNumaMapsTest, PagesOfManyNodesAndOfNone) {
  const std::string pool =
      "7f2a40000000 interleave:0-3,10 file=/dev/shm/pool mapped=196608 mapmax=2 N0=65536 N1=32768 "
      "N3=32768 N10=65536 kernelpagesize_kB=4\n";
  ExpectSample(Sum(pool, 1 << 30), 16, 32, 16);
  ExpectSample(Sum(pool, 1 << 30, 1), 8, 40, 16);  // and not those of node 10
  ExpectSample(Sum(pool, 1 << 30, 10), 16, 32, 16);
  ExpectSample(Sum("7f2a40000000 default file=/memfd:pool\n", 1 << 30), 0, 0, 64);
}

TEST(SumNumaMapsTest, AStrayPageIsNoPartOfASample) {
  const std::string pool =
      "7f2a40000000 default file=/memfd:pool dirty=262144 N0=262143 N1=1 kernelpagesize_kB=4\n";
  ExpectSample(Sum(pool, 1 << 30), 64, 0, 0);
}

TEST(SumNumaMapsTest, PartsOfAMappingAddUp) {
  const std::string pool =
      "7f2a40000000 bind:0 file=/memfd:pool dirty=131072 N0=131072 kernelpagesize_kB=4\n"
      "7f2a60000000 default file=/memfd:pool dirty=131072 N1=131072 kernelpagesize_kB=4\n";
  ExpectSample(Sum(pool, 1 << 30), 32, 32, 0);
  ExpectSample(Sum(pool, 1 << 29), 64, 0, 0);  // the second is another's
}

TEST(SumNumaMapsTest, APartOfAMappingIsNotKnown) {
  const std::string larger =
      "7f2a3ff00000 default file=/memfd:pool dirty=512 N0=512 kernelpagesize_kB=4\n";
  EXPECT_EQ(Sum(larger, 1 << 20).source, NumaSource::kRefused);
  const std::string end = "7f2a40080000 default anon=1 N0=1 kernelpagesize_kB=4\n";
  EXPECT_EQ(Sum(larger + end, 1 << 20).source, NumaSource::kRefused);
}

TEST(SumNumaMapsTest, WhatItDoesNotUnderstandCountsAsNothing) {
  for (const char* line :
       {"7f2a40000000", "7f2a40000000 default N0= N=3 Nx=4 N0 kernelpagesize_kB=4",
        "7f2a40000000 default N0=12 kernelpagesize_kB=x", "7f2a40000000 default N0=99"})
    ExpectSample(Sum(std::string(line) + "\n", 1 << 20), 0, 0, 64);
  for (const char* text : {"", "\n\n", "7f2a4000000z default N0=1", " 7f2a40000000 default N0=1"})
    EXPECT_FALSE(SumNumaMaps(text, Mapping(kPool, 1 << 20), 0).known()) << text;
  // More than the mapping can have, as when a neighbour of the same file was merged with it.
  ExpectSample(Sum("7f2a40000000 default N0=1024 N1=1024 kernelpagesize_kB=4\n", 1 << 20), 0, 64,
               0);
}

TEST(ReadNumaMapsTest, NobodyTellsWithoutTheFile) {
  const testing::TempDir proc;
  EXPECT_FALSE(ReadNumaMaps(Mapping(kPool, 1 << 20), 0, proc.path() + "/numa_maps").known());
}

TEST(ReadNumaMapsTest, SaysOfThisProcessWhatTheKernelSaysOfEachPage) {
  const std::vector<NumaNode> nodes = ReadNumaNodes();
  ASSERT_FALSE(nodes.empty());
  const int node = nodes.front().id;
  auto region = MappedRegion::Create("numa-maps-test", 4 << 20, HugePages::kOff);
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  ExpectSample(ReadNumaMaps(region->bytes(), node), 0, 0, 64);
  std::memset(region->data(), 1, region->size() / 2);
  const NumaSample asked = SampleNuma(region->bytes(), 4096, node);
  ASSERT_EQ(asked.source, NumaSource::kMovePages);
  const NumaSample summed = ReadNumaMaps(region->bytes(), node);
  EXPECT_EQ(summed.on_node + summed.elsewhere, 32u);
  EXPECT_EQ(summed.absent, asked.absent);
  std::memset(region->data(), 1, region->size());
  EXPECT_EQ(ReadNumaMaps(region->bytes(), node).absent, 0u);
  EXPECT_EQ(ReadNumaMaps(region->bytes(), node + 500).on_node, 0u);
  EXPECT_EQ(ReadNumaMaps(region->bytes(), node + 500).elsewhere, 64u);
  EXPECT_FALSE(ReadNumaMaps(region->bytes().subspan(4096), node).known());
}

}  // namespace
}  // namespace peercache
