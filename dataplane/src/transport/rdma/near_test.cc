#include "transport/rdma/near.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cstring>
#include <map>
#include <thread>

#include "base/memory.h"
#include "base/numa.h"
#include "base/refused_syscall_testing.h"
#include "transport/rdma/memory_testing.h"

namespace peercache::rdma {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<bool> Far(std::vector<int> rails, std::map<int, NumaSample> where,
                      size_t* asked = nullptr) {
  return FarRails(rails, [&](int node) {
    if (asked != nullptr) ++*asked;
    return where[node];
  });
}

TEST(NearTest, RailsOfTheNodeWhereMostOfTheMemoryIsAreNear) {
  const NumaSample most{60, 4, 0, NumaSource::kMovePages};
  const NumaSample few{4, 60, 0, NumaSource::kNumaMaps};
  size_t asked = 0;
  EXPECT_THAT(Far({0, 1, 1, 0, -1}, {{0, few}, {1, most}}, &asked),
              ElementsAre(true, false, false, true, false));
  EXPECT_EQ(asked, 2u);
  EXPECT_THAT(Far({0, 1}, {{0, few}, {1, few}}), IsEmpty()) << "it is on a third";
}

TEST(NearTest, NobodyIsAskedWhereNoRailIsNearerThanOthers) {
  size_t asked = 0;
  EXPECT_THAT(Far({1, 1}, {}, &asked), IsEmpty());
  EXPECT_THAT(Far({}, {}, &asked), IsEmpty());
  EXPECT_EQ(asked, 0u);
}

TEST(NearTest, WhatIsNotKnownIsNotFar) {
  const NumaSample most{60, 4, 0, NumaSource::kMovePages};
  EXPECT_THAT(Far({0, 1}, {{0, most}}), ElementsAre(false, false));
  EXPECT_THAT(Far({0, 1}, {}), IsEmpty());
}

TEST(NearTest, WhereTheKernelIsNotToBeAskedNumaMapsTells) {
  const int node = ReadNumaNodes()[0].id;
  auto region = MappedRegion::Create("near", 1 << 20, HugePages::kOff);
  ASSERT_TRUE(region.ok());
  std::memset(region->data(), 1, region->size() / 2);
  std::thread([&] {
    ASSERT_TRUE(testing::RefuseInThisThread(SYS_move_pages));
    EXPECT_FALSE(SampleTouched(region->bytes(), node).known()) << "half of it is not there yet";
    std::memset(region->data(), 1, region->size());
    const NumaSample all = SampleTouched(region->bytes(), node);
    EXPECT_EQ(all.source, NumaSource::kNumaMaps);
    EXPECT_GT(all.on_node + all.elsewhere, 0u);
    EXPECT_EQ(SampleTouched(region->bytes(), node + 500).on_node, 0u);
  }).join();
}

TEST(NearTest, ARegistrationSaysIt) {
  std::vector<std::byte> memory(100);
  const auto range = RegistrationTesting::Make(memory, 4096, 2);
  EXPECT_TRUE(range->IsNear(0) && range->IsNear(1)) << "nobody knows";
  const auto far = RegistrationTesting::Far(*range, {true, false});
  EXPECT_FALSE(far->IsNear(0));
  EXPECT_TRUE(far->IsNear(1));
}

}  // namespace
}  // namespace peercache::rdma
