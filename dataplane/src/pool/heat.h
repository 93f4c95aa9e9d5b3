// Heat: how often a page was read lately, as a number of four bits in its slot.
//
// Every read adds one, and every epoch halves it. An epoch is so many reads of the pool that a page
// of average interest gets two to four of them. So pages that are read alike have the same heat on
// every node, however long ago they were set. A node that is offered pages of a leaving one
// compares their heat with that of its own pages.
//
// Nothing walks over the pages: HeatNow halves for all epochs since a page's last use when somebody
// looks at the page.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace peercache {

constexpr uint8_t kMostHeat = 15;

// The heat of now, of what had `heat` at the pool's use number `last_use`. `pages`: in the pool.
constexpr uint8_t HeatNow(uint8_t heat, uint64_t last_use, uint64_t uses, uint64_t pages) {
  const auto epoch = static_cast<unsigned>(std::bit_width(pages)) + 1;  // of 2^epoch uses
  const uint64_t passed = (uses >> epoch) - (last_use >> epoch);
  return static_cast<uint8_t>(heat >> std::min<uint64_t>(passed, 4));
}

}  // namespace peercache
