#include "base/permit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace peercache {
namespace {

// The two ends of one permit.
struct Ends {
  Permit engine = Permit::Create().value();
  Permit node = Permit::Map(UniqueFd(fcntl(engine.fd(), F_DUPFD_CLOEXEC, 0))).value();
};

TEST(PermitTest, AUseIsSeenByTheOtherSideWhileItLasts) {
  Ends ends;
  EXPECT_FALSE(ends.engine.InUse());
  {
    const Permit::Use use(&ends.node);
    EXPECT_TRUE(use);
    EXPECT_TRUE(ends.engine.InUse());
    const Permit::Use second(&ends.node);
    EXPECT_TRUE(second);
  }
  EXPECT_FALSE(ends.engine.InUse());
}

TEST(PermitTest, AfterARevocationNothingBeginsAndWhatHasBegunIsSeen) {
  Ends ends;
  {
    const Permit::Use before(&ends.node);
    EXPECT_FALSE(ends.node.revoked());
    ends.engine.Revoke();
    EXPECT_TRUE(ends.node.revoked());
    EXPECT_TRUE(ends.engine.InUse());
    const Permit::Use after(&ends.node);
    EXPECT_FALSE(after);
  }
  EXPECT_FALSE(ends.engine.InUse()) << "a refused use leaves nothing behind";
  const Permit::Use late(&ends.node);
  EXPECT_FALSE(late);
}

TEST(PermitTest, WithoutAPermitEverythingIsGranted) {
  const Permit::Use use(nullptr);
  EXPECT_TRUE(use);
}

TEST(PermitTest, MemoryThatCanBeTakenAwayIsRefused) {
  EXPECT_EQ(Permit::Map(UniqueFd(memfd_create("unsealed", MFD_CLOEXEC))).status().code(),
            Code::kInvalidArgument);
  UniqueFd empty(memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_FALSE(Permit::Map(std::move(empty)).ok());
  EXPECT_FALSE(Permit::Map(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC))).ok());
}

// Writers fill a page under uses; an engine that has revoked and sees no use owns it.
TEST(PermitTest, NothingIsWrittenOnceItIsTakenBack) {
  for (int round = 0; round < 200; ++round) {
    Ends ends;
    std::vector<std::atomic<uint8_t>> page(4096);
    std::atomic<bool> stop{false}, begun{false};
    std::vector<std::thread> node;
    for (int t = 0; t < 2; ++t) {
      node.emplace_back([&] {
        while (!stop) {
          const Permit::Use use(&ends.node);
          if (!use) continue;
          begun = true;
          for (auto& byte : page) byte.store(1, std::memory_order_relaxed);
        }
      });
    }
    while (!begun) std::this_thread::yield();
    ends.engine.Revoke();
    while (ends.engine.InUse()) std::this_thread::yield();
    for (auto& byte : page) byte.store(2, std::memory_order_relaxed);
    std::this_thread::yield();
    for (const auto& byte : page) ASSERT_EQ(byte.load(std::memory_order_relaxed), 2);
    stop = true;
    for (std::thread& t : node) t.join();
  }
}

}  // namespace
}  // namespace peercache
