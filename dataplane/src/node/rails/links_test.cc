#include "node/rails/links.h"

#include <gtest/gtest.h>

#include <vector>

namespace peercache {
namespace {

size_t Place(const std::vector<bool>& outdated) {
  return PlaceToTake(outdated.size(), [&](size_t i) { return outdated[i]; });
}

TEST(LinksTest, TheLastThatHasAllRailsIsTakenElseTheLast) {
  EXPECT_EQ(Place({false}), 0u);
  EXPECT_EQ(Place({true}), 0u);
  EXPECT_EQ(Place({false, false, false}), 2u);
  EXPECT_EQ(Place({false, false, true}), 1u);
  EXPECT_EQ(Place({false, true, true}), 0u);
  EXPECT_EQ(Place({true, true, true}), 2u);
}

// A rail that comes up and goes down again while a link is chosen: whoever looked twice found an
// outdated one at first and none then, and took what lies before the first.
TEST(LinksTest, NoLinkIsLookedAtTwice) {
  for (size_t whole = 0; whole < 4; ++whole) {
    std::vector<int> looks(4);
    PlaceToTake(looks.size(), [&](size_t i) {
      ++looks[i];
      return i != whole;
    });
    for (const int n : looks) EXPECT_LE(n, 1);
  }
}

}  // namespace
}  // namespace peercache
