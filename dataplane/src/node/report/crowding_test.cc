#include "node/report/crowding.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace peercache {
namespace {

size_t WhoGoes(std::string_view sources) { return OldestOfTheMost(std::span(sources)); }

TEST(CrowdingTest, TheOldestOfTheSourceThatHasMost) {
  EXPECT_EQ(WhoGoes("a"), 0u);
  EXPECT_EQ(WhoGoes("aaa"), 0u);
  EXPECT_EQ(WhoGoes("abb"), 1u);
  EXPECT_EQ(WhoGoes("abab"), 0u);
  EXPECT_EQ(WhoGoes("bacacaa"), 1u);
}

TEST(CrowdingTest, WhoComesAloneOutlastsAFlood) {
  // One of each source, and then one of them again and again.
  std::string sources = "probe!";
  for (int i = 0; i < 100; ++i) {
    sources += 'x';
    if (sources.size() > 10) sources.erase(WhoGoes(sources), 1);
  }
  EXPECT_EQ(sources, "probe!xxxx");
}

}  // namespace
}  // namespace peercache
