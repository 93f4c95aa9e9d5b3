#include "base/small_file.h"

#include <gtest/gtest.h>

#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

TEST(SmallFileTest, LosesTheSpaceAroundTheValue) {
  const testing::TempDir dir;
  EXPECT_EQ(ReadSmallFile(dir.Write("state", " 4: ACTIVE \n")), "4: ACTIVE");
  EXPECT_EQ(ReadSmallFile(dir.Write("empty", "\n")), "");
  EXPECT_EQ(ReadSmallFile(dir.path() + "/none"), "");
}

TEST(SmallFileTest, ReadsNumbersOfAnyKind) {
  const testing::TempDir dir;
  EXPECT_EQ(ReadNumber<int>(dir.Write("node", "-1\n")), -1);
  EXPECT_EQ(ReadNumber<uint16_t>(dir.Write("pkey", "0xffff\n")), 0xffff);
  EXPECT_EQ(ReadNumber<double>(dir.Write("rate", "2.5 Gb/sec (1X SDR)\n")), 2.5);
  EXPECT_EQ(ReadNumber<int>(dir.Write("text", "none\n")), std::nullopt);
  EXPECT_EQ(ReadNumber<uint16_t>(dir.Write("large", "70000\n")), std::nullopt);
}

}  // namespace
}  // namespace peercache
