#include "node/config/auto_threads.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

TEST(AutoThreads, FollowTheCores) {
  struct Row {
    unsigned cores;
    uint32_t copy, io;
  };
  // No cores: the machine does not say.
  for (const auto& [cores, copy, io] :
       {Row{0, 1, 2}, {1, 1, 2}, {2, 2, 2}, {4, 4, 2}, {12, 4, 3}, {16, 4, 4}, {192, 4, 4}}) {
    EXPECT_EQ(CopyThreads(0, cores), copy) << cores;
    EXPECT_EQ(IoThreads(0, cores), io) << cores;
  }
}

TEST(AutoThreads, AreThoseThatWereAskedFor) {
  EXPECT_EQ(CopyThreads(7, 2), 7u);
  EXPECT_EQ(IoThreads(1, 64), 1u);
}

TEST(AutoThreads, OfANodeAreCounted) {
  EXPECT_EQ(NodeThreads(1, 2, 0, 0), 21u);
  EXPECT_EQ(NodeThreads(4, 4, 0, 0), 26u);
  EXPECT_EQ(NodeThreads(4, 4, 8, 0), 53u);
  EXPECT_EQ(NodeThreads(4, 4, 8, 2), 93u);
}

}  // namespace
}  // namespace peercache
