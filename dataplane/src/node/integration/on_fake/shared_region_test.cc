// Memory of engines where no thread can be started that registers it.
#include <gtest/gtest.h>

#include "base/no_thread_testing.h"
#include "node/rails/fabric.h"
#include "transport/rdma/fake/fake_testing.h"

namespace peercache {
namespace {

std::shared_ptr<MappedRegion> Memory(size_t bytes) {
  auto made = MappedRegion::Create("shared-region-test", bytes, HugePages::kOff);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return std::make_shared<MappedRegion>(std::move(*made));
}

TEST(SharedRegionTest, WithoutAThreadTheCallerRegistersWhatIsSmall) {
  rdma::FakeVerbs::Get().Reset();
  std::vector<rdma::RailSpec> rails(1);
  rails[0].name = "fake0:1";
  rails[0].device = "fake0";
  rails[0].port = 1;
  const auto pool = Memory(1 << 20), small = Memory(4096), large = Memory(size_t{80} << 20);
  auto fabric = Fabric::Open({}, rails, pool->bytes());
  ASSERT_TRUE(fabric.ok()) << fabric.status().ToString();
  const Result<std::shared_ptr<const void>> none_held = std::shared_ptr<const void>();
  const testing::NoMoreThreads none;
  const auto shared = (*fabric)->Share("a small region", small, none_held);
  shared->AwaitIfShort();
  EXPECT_TRUE(shared->registered());
  const auto left = (*fabric)->Share("a large region", large, none_held);
  left->AwaitIfShort();
  EXPECT_FALSE(left->registered()) << "its pages are read over TCP";
}

}  // namespace
}  // namespace peercache
