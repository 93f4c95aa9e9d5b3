// A kernel with pages of 64 KiB, as many of arm64 have. NOT-IN-A-GROUP: this program's own
// sysconf().
#include <gtest/gtest.h>
#include <unistd.h>

#include "node/integration/node_testing.h"

namespace {

long pretended = 0;  // the size of a page; 0: the kernel's

}  // namespace

extern "C" long __sysconf(int name) noexcept;

// The sanitizers ask before they are ready.
extern "C" __attribute__((no_sanitize("address", "undefined", "thread"))) long sysconf(
    int name) noexcept {
  const long page = __atomic_load_n(&pretended, __ATOMIC_RELAXED);
  return name == _SC_PAGESIZE && page != 0 ? page : __sysconf(name);
}

namespace peercache::testing {
namespace {

class PageSizeTest : public ::testing::Test {
 protected:
  PageSizeTest() { __atomic_store_n(&pretended, 64 << 10, __ATOMIC_RELAXED); }
  ~PageSizeTest() override { __atomic_store_n(&pretended, 0, __ATOMIC_RELAXED); }
};

TEST_F(PageSizeTest, EnginesAndNodesServeOnPagesOf64KiB) {
  ASSERT_EQ(SmallPageSize(), size_t{64} << 10);
  TestCluster cluster;
  const auto a = cluster.Start("a"), b = cluster.Start("b");
  uint64_t first = 0;
  for (const bool shared : {true, false}) {
    TestEngine writer(a->socket(), 5, 12'000, shared), reader(b->socket(), 5, 12'000, shared);
    ASSERT_EQ(writer.Set(first, 5), 5u);
    const auto got = reader.Get(first, 5);
    EXPECT_EQ(got.hits, 5u);
    EXPECT_EQ(got.wrong, 0u);
    EXPECT_EQ(reader.client().stats().staged_bytes > 0, !shared);
    first += 100;
  }
}

}  // namespace
}  // namespace peercache::testing
