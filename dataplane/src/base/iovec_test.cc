#include "base/iovec.h"

#include <gtest/gtest.h>

#include <vector>

namespace peercache {
namespace {

class SkipMovedTest : public testing::Test {
 protected:
  size_t Left() const {
    size_t left = 0;
    for (const iovec& part : parts_) left += part.iov_len;
    return left;
  }
  std::byte bytes_[16];
  std::vector<iovec> parts_ = {{bytes_, 4}, {bytes_ + 4, 0}, {bytes_ + 4, 8}, {bytes_ + 12, 0}};
};

TEST_F(SkipMovedTest, StopsWithinAPart) {
  EXPECT_EQ(SkipMoved(parts_, 0, 3), 0u);
  EXPECT_EQ(parts_[0].iov_base, bytes_ + 3);
  EXPECT_EQ(parts_[0].iov_len, 1u);
  EXPECT_EQ(Left(), 9u);
  EXPECT_EQ(SkipMoved(parts_, 0, 3), 2u);
  EXPECT_EQ(parts_[2].iov_base, bytes_ + 6);
  EXPECT_EQ(Left(), 6u);
}

TEST_F(SkipMovedTest, WholePartsAndEmptyOnesAreBehindIt) {
  EXPECT_EQ(SkipMoved(parts_, 0, 4), 2u);
  EXPECT_EQ(SkipMoved(parts_, 2, 8), 4u);
  EXPECT_EQ(Left(), 0u);
}

TEST_F(SkipMovedTest, NothingMovedPassesOnlyEmptyParts) {
  EXPECT_EQ(SkipMoved(parts_, 0, 0), 0u);
  EXPECT_EQ(SkipMoved(parts_, 1, 0), 2u);
  EXPECT_EQ(SkipMoved(parts_, 3, 0), 4u);
  EXPECT_EQ(Left(), 12u);
  EXPECT_EQ(SkipMoved({}, 0, 0), 0u);
}

}  // namespace
}  // namespace peercache
