// What a call of an engine allocates does not grow with its pages. Counts the allocations of the
// whole test program, engine and both nodes.
#include <gtest/gtest.h>

#include "base/allocations_testing.h"
#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using testing::Eventually;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kFew = 16, kMany = 256, kPage = 4096;
constexpr int kCalls = 20;

// Allocations for each page more in a call, once calls of that size have been made before.
double ForEachPage(const std::function<void(size_t pages)>& call) {
  const auto of = [&](size_t pages) {
    for (int i = 0; i < 3; ++i) call(pages);
    const uint64_t before = testing::allocations.load();
    for (int i = 0; i < kCalls; ++i) call(pages);
    return static_cast<double>(testing::allocations.load() - before) / kCalls;
  };
  const double few = of(kFew), many = of(kMany);
  EXPECT_GT(few, 0) << "the counter works";
  printf("allocations of a call with %zu pages: %.1f, with %zu: %.1f\n", kFew, few, kMany, many);
  return (many - few) / (kMany - kFew);
}

// Vectors that grow do so a few times more, and the nodes' own threads allocate beside.
constexpr double kNone = 0.5;

class CallAllocation : public ::testing::Test {
 protected:
  CallAllocation() {
    // Pages are not set while a shard that has just joined does not answer.
    EXPECT_TRUE(
        Eventually(std::chrono::seconds(20), [&] { return writer_.Set(0, kMany) == kMany; }));
    for (const size_t pages : {kFew, kMany}) segments_.push_back(reader_.Segments(pages));
  }
  std::span<const Key> Keys(size_t pages) const { return std::span(keys_).first(pages); }

  // Pages stay remote, however often they are read.
  TestCluster cluster_{[](NodeConfig* c) { c->promotion_percent = 0; }};
  std::unique_ptr<Node> holder_ = cluster_.Start("holder"), node_ = cluster_.Start("node");
  TestEngine writer_{holder_->socket(), kMany, kPage}, reader_{node_->socket(), kMany, kPage};
  std::vector<Key> keys_ = TestEngine::Keys(0, kMany);
  std::vector<std::vector<Segment>> segments_;
  std::vector<uint8_t> ok_ = std::vector<uint8_t>(kMany);
};

TEST_F(CallAllocation, GetFromAnotherNode) {
  EXPECT_LT(ForEachPage([&](size_t pages) {
              const std::span<uint8_t> ok = std::span(ok_).first(pages);
              reader_.client().Get(Keys(pages), segments_[pages == kMany], 2, ok);
              ASSERT_EQ(static_cast<size_t>(std::count(ok.begin(), ok.end(), uint8_t{1})), pages);
            }),
            kNone);
}

TEST_F(CallAllocation, GetFromTheOwnNode) {
  EXPECT_LT(ForEachPage([&](size_t pages) {
              const std::span<uint8_t> ok = std::span(ok_).first(pages);
              writer_.client().Get(Keys(pages), segments_[pages == kMany], 2, ok);
            }),
            kNone);
}

TEST_F(CallAllocation, ExistsOnAnotherNode) {
  EXPECT_LT(
      ForEachPage([&](size_t pages) { ASSERT_EQ(reader_.client().Exists(Keys(pages)), pages); }),
      kNone);
}

TEST_F(CallAllocation, PresenceOnAnotherNode) {
  EXPECT_LT(ForEachPage([&](size_t pages) {
              const std::span<uint8_t> there = std::span(ok_).first(pages);
              ASSERT_TRUE(reader_.client().Presence(Keys(pages), there));
            }),
            kNone);
}

TEST_F(CallAllocation, SetOfPagesThatAreHere) {
  EXPECT_LT(ForEachPage([&](size_t pages) {
              const std::span<uint8_t> ok = std::span(ok_).first(pages);
              writer_.client().Set(Keys(pages), segments_[pages == kMany], 2, 1, ok);
            }),
            kNone);
}

TEST_F(CallAllocation, NothingWithoutANode) {
  auto client = Client::Connect({.socket = cluster_.dir() + "/nobody.sock"});
  ASSERT_TRUE(client.ok());
  ASSERT_FALSE((*client)->attached());
  const uint64_t before = testing::allocations_here;
  EXPECT_EQ((*client)->Exists(keys_), 0u);
  (*client)->Get(keys_, segments_[1], 2, ok_);
  (*client)->Set(keys_, segments_[1], 2, 1, ok_);
  EXPECT_EQ(testing::allocations_here, before);
}

}  // namespace
}  // namespace peercache
