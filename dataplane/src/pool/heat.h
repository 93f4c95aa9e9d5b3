// Heat: how often a page was read lately, as a number of four bits in its slot. Every read adds
// one; it is halved with every epoch, which is so many reads of the pool that a page of average
// interest gets two to four of them. So of pages that are read alike it says the same on every
// node, however long ago they were set: what leaves a node is weighed by it against what is there.
//
// Nothing walks over the pages: the epochs since a page's last use are made up for when it is
// looked at.
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
