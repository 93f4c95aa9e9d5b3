#include "transport/rdma/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "transport/rdma/memory_testing.h"

namespace peercache::rdma {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RegisteredMemoryTest, FindsTheRangeThatHoldsAllBytes) {
  std::vector<std::byte> memory(3000);
  const std::span<std::byte> all(memory);
  RegisteredMemory registered;
  const auto high = RegistrationTesting::Make(all.subspan(2000, 1000), 4096);
  const auto low = RegistrationTesting::Make(all.subspan(0, 1000), 4096);
  registered.Add(high);
  registered.Add(low);
  const auto find = [&](size_t offset, size_t size) {
    return RegisteredMemory::Find(*registered.ranges(), all.subspan(offset, size));
  };
  EXPECT_EQ(find(0, 1000), low.get());
  EXPECT_EQ(find(999, 1), low.get());
  EXPECT_EQ(find(999, 2), nullptr);
  EXPECT_EQ(find(1500, 1), nullptr);
  EXPECT_EQ(find(2000, 1000), high.get());
  EXPECT_EQ(find(2500, 501 - 1), high.get());
  registered.Remove(low->id());
  EXPECT_EQ(find(0, 1), nullptr);
  EXPECT_EQ(find(2000, 1), high.get());
}

TEST(RegisteredMemoryTest, ASnapshotKeepsWhatIsRemoved) {
  std::vector<std::byte> memory(100);
  RegisteredMemory registered;
  auto range = RegistrationTesting::Make(memory, 4096);
  const std::weak_ptr<const Registration> watched = range;
  registered.Add(std::move(range));
  auto snapshot = registered.ranges();
  registered.Remove(snapshot->front()->id());
  EXPECT_FALSE(watched.expired());
  snapshot.reset();
  EXPECT_TRUE(watched.expired());
}

// Memory of a device that was freed and came back at its address, registered before its old range
// is dropped.
TEST(RegisteredMemoryTest, TheSameBytesTwiceAreTwoRangesOfWhichTheLastIsFound) {
  std::vector<std::byte> memory(100);
  RegisteredMemory registered;
  const auto first = RegistrationTesting::Make(memory, 4096);
  const auto second = RegistrationTesting::Make(memory, 4096);
  registered.Add(first);
  registered.Add(second);
  EXPECT_EQ(RegisteredMemory::Find(*registered.ranges(), memory), second.get());
  const auto anew = RegistrationTesting::Known(*second, 0);
  EXPECT_TRUE(registered.Replace(second.get(), 0, anew));
  EXPECT_TRUE(registered.Known(second->id()));
  EXPECT_FALSE(registered.Known(first->id()));
  registered.Remove(first->id());
  EXPECT_EQ(RegisteredMemory::Find(*registered.ranges(), memory), anew.get());
  registered.Remove(second->id());
  EXPECT_TRUE(registered.ranges()->empty());
}

TEST(RegisteredMemoryTest, ARangeIsReplacedWhereItIsAndOnlyWhileItIs) {
  std::vector<std::byte> memory(3000);
  const std::span<std::byte> all(memory);
  RegisteredMemory registered;
  const auto old = RegistrationTesting::Make(all.subspan(1000, 1000), 4096);
  registered.Add(RegistrationTesting::Make(all.subspan(0, 1000), 4096));
  registered.Add(old);
  registered.Add(RegistrationTesting::Make(all.subspan(2000, 1000), 4096));
  const auto before = registered.ranges();
  const auto anew = RegistrationTesting::Known(*old, 0);
  EXPECT_TRUE(registered.Replace(old.get(), 0, anew));
  const auto after = registered.ranges();
  ASSERT_EQ(after->size(), 3u);
  EXPECT_EQ(RegisteredMemory::Find(*after, all.subspan(1500, 10)), anew.get());
  EXPECT_EQ(RegisteredMemory::Find(*before, all.subspan(1500, 10)), old.get()) << "a batch at work";
  EXPECT_EQ((*after)[0], (*before)[0]);
  EXPECT_FALSE(registered.Replace(old.get(), 0, old)) << "somebody was faster";
  registered.Remove(old->id());
  EXPECT_FALSE(registered.Replace(anew.get(), 0, anew)) << "it was taken back meanwhile";
  EXPECT_EQ(registered.ranges()->size(), 2u);
}

TEST(RegisteredMemoryTest, RailsThatComeBackTogetherKeepEachOthersKeys) {
  std::vector<std::byte> memory(1000);
  RegisteredMemory registered;
  const auto none = RegistrationTesting::Make(memory, 4096, 2);
  registered.Add(none);
  const auto first = RegistrationTesting::Known(*none, 0);
  const auto second = RegistrationTesting::Known(*none, 1);
  EXPECT_TRUE(registered.Replace(none.get(), 0, first));
  EXPECT_TRUE(registered.Replace(none.get(), 1, second));
  const auto both = registered.ranges()->front();
  EXPECT_EQ(both->KnownTo(0), first->KnownTo(0));
  EXPECT_EQ(both->KnownTo(1), second->KnownTo(1));
  EXPECT_FALSE(registered.Replace(none.get(), 0, RegistrationTesting::Known(*none, 0)))
      << "the rail has had another device meanwhile";
}

TEST(RegistrationTest, ChunksAreWholeHugePagesWithinTheDevicesLimit) {
  constexpr uint64_t kGi = uint64_t{1} << 30;
  EXPECT_EQ(ChunkBytes(4 * kGi, UINT64_MAX), 16 * kGi);
  EXPECT_EQ(ChunkBytes(64 * kGi, 2 * kGi + 12345), 2 * kGi);
  EXPECT_EQ(ChunkBytes(1000, 4096), 1000u) << "less than a huge page, and all of it fits";
  EXPECT_EQ(ChunkBytes(10'000, 4096), 0u);
  EXPECT_GT(ChunkBytes(uint64_t{1024} * 1024 * kGi, UINT64_MAX), 16 * kGi) << "bounded in number";
  EXPECT_EQ(ChunkBytes(uint64_t{1024} * 1024 * kGi, kGi), 0u) << "would need too many";
}

TEST(RegistrationTest, ARefusalNamesTheLimitTheNeedAndTheRemedy) {
  Memlock memlock;
  memlock.limit = 96 << 20;
  memlock.uid = 65534;
  const auto explain = [&](size_t rails, int error) {
    return ExplainRegistration("pool", "mlx5_0:1", 64 << 20, rails, error, memlock).message();
  };
  EXPECT_THAT(explain(2, ENOMEM), AllOf(HasSubstr("pool (64 MiB) with rail mlx5_0:1"),
                                        HasSubstr("RLIMIT_MEMLOCK is 96Mi, pool locks 128Mi"),
                                        HasSubstr("LimitMEMLOCK=infinity")));
  EXPECT_THAT(explain(1, ENOMEM), HasSubstr("smaller pool")) << "within the limit";
  memlock.uid = 0;
  EXPECT_THAT(explain(2, ENOMEM), HasSubstr("or add the capability IPC_LOCK"))
      << "root without it is bound, too";
  memlock.ipc_lock = true;
  EXPECT_THAT(explain(2, ENOMEM), HasSubstr("smaller pool"));
  memlock = {};
  memlock.limit = 0;
  EXPECT_THAT(explain(1, EPERM), HasSubstr("RLIMIT_MEMLOCK is 0"));
  EXPECT_THAT(explain(1, EFAULT), Not(HasSubstr("RLIMIT_MEMLOCK")));
}

TEST(RegistrationTest, ARefusedDmaBufNamesWhatIsMissing) {
  EXPECT_THAT(ExplainDmaBuf("dma-buf", "rxe0", EOPNOTSUPP, true).message(),
              AllOf(HasSubstr("dma-buf with rail rxe0"), HasSubstr("Linux 5.12")));
  EXPECT_THAT(ExplainDmaBuf("dma-buf", "r", 0, false).message(), HasSubstr("rdma-core 34"));
  EXPECT_THAT(ExplainDmaBuf("dma-buf", "r", EREMOTEIO, true).message(), HasSubstr("PCIe"));
}

}  // namespace
}  // namespace peercache::rdma
