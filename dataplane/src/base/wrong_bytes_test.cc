#include "base/wrong_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace peercache {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Bytes = std::vector<std::byte>;

TEST(WrongBytesTest, ThePageAndTheFirstDifferenceAreNamed) {
  const Bytes want(100, std::byte{1});
  Bytes got = want;
  EXPECT_EQ(DescribeWrongBytes("page 7", got, want), "");
  got[40] = std::byte{0xee};
  got[99] = std::byte{2};
  EXPECT_THAT(DescribeWrongBytes("page 7", got, want),
              AllOf(StartsWith(std::string(kWrongBytesToken) + ": page 7: 2 of 100 bytes differ"),
                    HasSubstr("from offset 40 on: got ee01010101010101, expected 0101")));
}

TEST(WrongBytesTest, APartOfAPageIsWrong) {
  const Bytes want(100, std::byte{1});
  const auto part = std::span(want).first(60);
  EXPECT_THAT(DescribeWrongBytes("page 7", part, want),
              HasSubstr("40 of 100 bytes differ, from offset 60 on: got , expected 0101"));
  EXPECT_NE(DescribeWrongBytes("page 7", want, part), "");
  EXPECT_EQ(DescribeWrongBytes("page 7", {}, {}), "");
}

TEST(WrongBytesTest, WrongPagesArePrintedTheFirstOfThem) {
  const Bytes want(8, std::byte{1}), got(8, std::byte{2});
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(HasRightBytes("page 7", want, want));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 10 * kMostWrongPagesPrinted; ++i)
    EXPECT_FALSE(HasRightBytes("page 7", got, want));
  const std::string printed = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(printed, HasSubstr(DescribeWrongBytes("page 7", got, want)));
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), kMostWrongPagesPrinted);
}

}  // namespace
}  // namespace peercache
