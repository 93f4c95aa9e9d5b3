#include "base/size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache {
namespace {

TEST(ParseSize, ReadsEveryForm) {
  const std::pair<const char*, uint64_t> cases[] = {
      {"0", 0},
      {"1073741824", uint64_t{1} << 30},
      {"17b", 17},
      {"4Gi", uint64_t{4} << 30},
      {"4gb", uint64_t{4} << 30},
      {"4GB", uint64_t{4} << 30},
      {"4GiB", uint64_t{4} << 30},
      {"512MiB", uint64_t{512} << 20},
      {"64ki", uint64_t{64} << 10},
      {"3Ti", uint64_t{3} << 40},
      {"2Pi", uint64_t{2} << 50},
      {"15Ei", uint64_t{15} << 60},
      {"18446744073709551615", UINT64_MAX},
  };
  for (const auto& [text, bytes] : cases) {
    auto size = ParseSize(text);
    ASSERT_TRUE(size.ok()) << text << ": " << size.status().ToString();
    EXPECT_EQ(*size, bytes) << text;
  }
}

TEST(ParseSize, RefusesWithReasonAndRemedy) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "does not start with a whole number"},
      {"Gi", "does not start with a whole number"},
      {"-1", "does not start with a whole number"},
      {"+1", "does not start with a whole number"},
      {" 1Gi", "does not start with a whole number"},
      {"1.5Gi", "has a fraction"},
      {"4G", "is ambiguous"},
      {"4k", "is ambiguous"},
      {"4 Gi", "unknown unit \" gi\""},
      {"4Gii", "unknown unit \"gii\""},
      {"4Xi", "unknown unit \"xi\""},
      {"4bytes", "unknown unit \"bytes\""},
      {"1e9", "unknown unit \"e9\""},
      {"16Ei", "is 16Ei or more"},
      {"18446744073709551616", "is 16Ei or more"},
  };
  for (const auto& [text, reason] : cases) {
    auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text << " gave " << *size;
    EXPECT_EQ(size.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(size.status().message(), ::testing::HasSubstr(reason)) << text;
    EXPECT_THAT(size.status().message(),
                ::testing::HasSubstr("size \"" + std::string(text) + "\""));
    EXPECT_THAT(size.status().message(), ::testing::HasSubstr("e.g. 4Gi"));
  }
}

TEST(FormatSize, IsTheShortestExactForm) {
  EXPECT_EQ(FormatSize(0), "0");
  EXPECT_EQ(FormatSize(1000), "1000");
  EXPECT_EQ(FormatSize(4096), "4Ki");
  EXPECT_EQ(FormatSize(uint64_t{3} << 29), "1536Mi");
  EXPECT_EQ(FormatSize(uint64_t{4} << 30), "4Gi");
  EXPECT_EQ(FormatSize(UINT64_MAX), "18446744073709551615");
}

TEST(FormatSize, IsReadBackByParseSize) {
  for (uint64_t bytes : {uint64_t{1}, uint64_t{1536}, uint64_t{4097}, uint64_t{5} << 20,
                         (uint64_t{7} << 60) + 4096, uint64_t{1} << 63})
    EXPECT_EQ(*ParseSize(FormatSize(bytes)), bytes) << FormatSize(bytes);
}

}  // namespace
}  // namespace peercache
