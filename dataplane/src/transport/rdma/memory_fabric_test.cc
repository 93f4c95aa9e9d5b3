// Registration of memory with real devices (hack/lab/soft-rdma brings some).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "transport/rdma/fabric_testing.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/verbs.h"

namespace peercache::rdma {
namespace {

using ::testing::HasSubstr;

// The driver's part is stood in for: these devices have no on-demand paging.
TEST(RegistrationFabricTest, OnDemandPagingIsAskedForOfDevicesThatHaveItOnly) {
  auto rails = Rails::Open(FindTestRails(), {.on_demand_paging = true});
  ASSERT_TRUE(rails.ok()) << rails.status().ToString();
  ASSERT_GE((*rails)->size(), 2u);
  static std::atomic<int> on_demand, locked;
  on_demand = locked = 0;
  auto* table = const_cast<Verbs*>(*Verbs::Load());
  static const auto before = table->reg_mr_iova2;
  table->reg_mr_iova2 = [](ibv_pd* pd, void* address, size_t length, uint64_t iova,
                           unsigned access) {
    ++((access & IBV_ACCESS_ON_DEMAND) != 0 ? on_demand : locked);
    return before(pd, address, length, iova, access & ~unsigned{IBV_ACCESS_ON_DEMAND});
  };
  const Rail& first = *(*rails)->all()[0];
  EXPECT_THAT(first.memory(), HasSubstr("locked: it has no on-demand paging"));
  const_cast<DeviceContext&>(*first.device()).on_demand_paging = {};
  EXPECT_EQ(first.memory(), "on demand");
  {
    const TestReader reader(rails->get(), 1 << 20);
    EXPECT_EQ(on_demand, 1);
    EXPECT_EQ(locked, static_cast<int>((*rails)->size()) - 1);
    const auto memory = TestMemory(4096);
    const auto device =
        Registration::Make("device", memory->bytes(), **rails, Registration::For::kLocalWrite,
                           memory, {.device = true});
    EXPECT_TRUE(device.ok()) << device.status().ToString();
    EXPECT_EQ(on_demand, 1) << "a device's addresses have no pages to bring in";
  }
  table->reg_mr_iova2 = before;
}

TEST(RegistrationFabricTest, TooLittleMemlockIsExplained) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto rails = OpenTestRails();
    const rlimit limit{64 << 10, 64 << 10};
    const auto memory = TestMemory(8 << 20);
    std::string said = "the limit could not be set";
    if (setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && setuid(65534) == 0) {
      const auto made = Registration::Make("pool", memory->bytes(), *rails,
                                           Registration::For::kRemoteRead, nullptr, {});
      said = made.ok() ? "registered" : made.status().message();
    }
    (void)!write(pipe_ends[1], said.data(), said.size());
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string said(1000, '\0');
  const ssize_t n = read(pipe_ends[0], said.data(), said.size());
  said.resize(n > 0 ? static_cast<size_t>(n) : 0);
  close(pipe_ends[0]);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(said, HasSubstr("RLIMIT_MEMLOCK is 64Ki"));
  EXPECT_THAT(said, HasSubstr("LimitMEMLOCK=infinity"));
}

}  // namespace
}  // namespace peercache::rdma
