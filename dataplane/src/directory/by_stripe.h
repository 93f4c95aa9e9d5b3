// ByStripe: keys in the order of the stripes whose locks cover them, so that a batch takes each
// lock once instead of one for every key. Allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/key.h"

namespace peercache {

// visit(stripe, first, which): of the stripe are keys[first + w] for each w of `which`. Called once
// for each stripe that has any, of every 256 keys. Before that, the cache lines at place_of(key) of
// all of these are fetched, without a lock: what visit looks at first.
template <size_t kStripes, typename StripeOf, typename PlaceOf, typename Visit>
void ByStripe(std::span<const Key> keys, const StripeOf& stripe_of, const PlaceOf& place_of,
              const Visit& visit) {
  constexpr size_t kBlock = 256;  // sorted at a time, on the stack
  for (size_t first = 0; first < keys.size(); first += kBlock) {
    const auto block = keys.subspan(first, std::min(kBlock, keys.size() - first));
    std::array<uint16_t, kStripes + 1> begin{};
    for (const Key& key : block) {
      __builtin_prefetch(place_of(key));  // not by a function of its own: GCC takes it for pure
      ++begin[stripe_of(key) + 1];
    }
    for (size_t s = 0; s < kStripes; ++s) begin[s + 1] += begin[s];
    std::array<uint16_t, kStripes> next;
    std::copy_n(begin.begin(), kStripes, next.begin());
    std::array<uint16_t, kBlock> sorted;
    for (size_t i = 0; i < block.size(); ++i)
      sorted[next[stripe_of(block[i])]++] = static_cast<uint16_t>(i);
    for (size_t s = 0; s < kStripes; ++s) {
      const std::span<const uint16_t> all(sorted);
      if (begin[s] < begin[s + 1])
        visit(s, first, all.subspan(begin[s], size_t{begin[s + 1]} - begin[s]));
    }
  }
}

}  // namespace peercache
