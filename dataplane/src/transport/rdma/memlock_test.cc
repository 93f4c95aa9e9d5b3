#include "transport/rdma/memlock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::rdma {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFirstNamespace[] = "         0          0 4294967295";
constexpr uint64_t kMi = uint64_t{1} << 20;

TEST(MemlockTest, OfRootAndOfAUserThatOnlyWasGrantedTheCapability) {
  const Memlock root = ParseMemlock(
      "Name:\tx\nUid:\t0\t0\t0\t0\nVmPin:\t      64 kB\nCapEff:\t000001ffffffffff\n"
      "CapBnd:\t000001ffffffffff\n",
      kFirstNamespace, 65536);
  EXPECT_EQ(root.limit, 65536u);
  EXPECT_EQ(root.locked, 65536u);
  EXPECT_EQ(root.uid, 0u);
  EXPECT_TRUE(root.ipc_lock);
  EXPECT_FALSE(root.binds());
  const Memlock user = ParseMemlock(
      "Uid:\t1000\t65534\t1000\t1000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000004000\n",
      kFirstNamespace, 1);
  EXPECT_EQ(user.uid, 65534u) << "the effective one counts";
  EXPECT_FALSE(user.ipc_lock);
  EXPECT_TRUE(user.ipc_lock_granted);
  EXPECT_TRUE(user.binds());
  EXPECT_FALSE(ParseMemlock("", "", 1).ipc_lock);
  EXPECT_FALSE(ParseMemlock("", "", UINT64_MAX).binds());
}

TEST(MemlockTest, TheKernelDoesNotTakeTheCapabilityOfAUserNamespace) {
  const Memlock memlock =
      ParseMemlock("CapEff:\t000001ffffffffff\n", "         0     100000      65536", 1);
  EXPECT_TRUE(memlock.binds());
  EXPECT_THAT(MemlockRemedy(memlock), HasSubstr("does nothing in a user namespace"));
}

TEST(MemlockTest, EachRailCountsAndSoDoesWhatIsLocked) {
  Memlock memlock;
  memlock.limit = 128 * kMi;
  EXPECT_TRUE(CheckMemlock("pool", 64 * kMi, 2, memlock).ok());
  EXPECT_THAT(CheckMemlock("pool", 64 * kMi, 3, memlock).message(),
              HasSubstr("RLIMIT_MEMLOCK is 128Mi, pool locks 192Mi (64Mi on each of 3 rails): "));
  EXPECT_TRUE(CheckMemlock("pool", 640 * kMi, 0, memlock).ok()) << "paged in on demand";
  memlock.locked = kMi;
  EXPECT_THAT(CheckMemlock("pool", 64 * kMi, 2, memlock).message(),
              HasSubstr("128Mi (1Mi are locked)"));
  memlock.ipc_lock = true;
  EXPECT_TRUE(CheckMemlock("pool", 64 * kMi, 2, memlock).ok());
}

TEST(MemlockTest, TheRemedyIsForWhoeverAsks) {
  Memlock memlock;
  memlock.limit = 1;
  EXPECT_THAT(MemlockRemedy(memlock),
              AllOf(HasSubstr("LimitMEMLOCK=infinity"), HasSubstr("or add the capability")));
  memlock.uid = 65534;
  EXPECT_THAT(MemlockRemedy(memlock), Not(HasSubstr("IPC_LOCK")));
  memlock.ipc_lock_granted = true;
  EXPECT_THAT(MemlockRemedy(memlock), HasSubstr("does nothing for user 65534"));
}

}  // namespace
}  // namespace peercache::rdma
