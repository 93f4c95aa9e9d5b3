// What an OwnerTable says beyond what a shard shows (shard_test.cc).
#include "directory/owner_table.h"

#include <gtest/gtest.h>

#include <future>

namespace peercache {
namespace {

TEST(OwnerTableTest, WhoSpeaksIsNotWaitedForButLeftOut) {
  ShardOptions options;
  OwnerTable table(options);
  const TimePoint now{std::chrono::hours(1)};
  for (const uint64_t node : {7, 8}) {
    OwnerStamp stamp{.node = node,
                     .incarnation = 1,
                     .epoch = 1,
                     .echo = 0,
                     .sequence = 0,
                     .ttl_ms = 3000,
                     .lease_ms = 1000};
    ASSERT_TRUE(table.Admit(stamp, now).ok());
    stamp.echo = table.Voice(node, now).stamp;
    ASSERT_TRUE(table.Admit(stamp, now).ok());
  }
  ASSERT_EQ(table.Served(now).size(), 2u);
  {
    const auto speaking = table.Admit({.node = 7, .incarnation = 1, .epoch = 1}, now);
    ASSERT_TRUE(speaking.ok());
    // Another thread: who has admitted an owner asks the table nothing else.
    const auto served = std::async(std::launch::async, [&] { return table.Served(now); }).get();
    ASSERT_EQ(served.size(), 1u);
    EXPECT_EQ(served[0].node, 8u);
  }
  EXPECT_EQ(table.Served(now).size(), 2u);
}

}  // namespace
}  // namespace peercache
