#include "base/cpu_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CpuListTest, ReadsAndWritesTheKernelsForm) {
  const auto cpus = ParseCpuList("0-3,8,10-11");
  ASSERT_TRUE(cpus.ok());
  EXPECT_THAT(*cpus, ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_EQ(FormatCpuList(*cpus), "0-3,8,10-11");
  EXPECT_THAT(*ParseCpuList("5,1,1-2"), ElementsAre(1, 2, 5));
  EXPECT_THAT(*ParseCpuList(""), IsEmpty());
  EXPECT_EQ(FormatCpuList({}), "");
}

TEST(CpuListTest, OtherTextIsRefused) {
  for (const char* text : {"a", "1-", "-1", "3-1", "1,,2", "1,", "1-2-3", "0-99999999", "1 2"})
    EXPECT_FALSE(ParseCpuList(text).ok()) << text;
}

}  // namespace
}  // namespace peercache
