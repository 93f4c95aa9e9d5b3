#include "directory/ring.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace peercache {
namespace {

// Weights as 32-bit numbers of the same ratios, so that products fit in 64 bits on every node
// alike.
std::vector<RingMember> Normalized(std::span<const RingMember> members) {
  std::vector<RingMember> result(members.begin(), members.end());
  std::sort(result.begin(), result.end(),
            [](const RingMember& a, const RingMember& b) { return a.node < b.node; });
  const auto same = [](const RingMember& a, const RingMember& b) { return a.node == b.node; };
  result.erase(std::unique(result.begin(), result.end(), same), result.end());

  uint64_t smallest = UINT64_MAX, largest = 1;
  for (const RingMember& member : result) {
    if (member.weight != 0) smallest = std::min(smallest, member.weight);
    largest = std::max(largest, member.weight);
  }
  if (smallest == UINT64_MAX) smallest = 1;
  const int shift = std::max(0, static_cast<int>(std::bit_width(largest)) - 32);
  for (RingMember& member : result) {
    const uint64_t weight = member.weight == 0 ? smallest : member.weight;
    member.weight = std::max<uint64_t>(1, weight >> shift);
  }
  return result;
}

}  // namespace

Ring::Ring(std::span<const RingMember> members, uint32_t vnodes) {
  const auto normalized = Normalized(members);
  uint64_t total = 0;
  for (const RingMember& member : normalized) total += member.weight;
  const uint64_t points = uint64_t{vnodes} * normalized.size();
  for (const RingMember& member : normalized) {
    const uint64_t count = std::max<uint64_t>(1, (member.weight * points + total / 2) / total);
    // The first points of a member are the same whatever their number, so a change of weight or of
    // the average moves only what it must.
    for (uint64_t i = 0; i < count; ++i)
      points_.emplace_back(XXH3_64bits_withSeed(&member.node, sizeof(member.node), i), member.node);
  }
  std::sort(points_.begin(), points_.end());
}

uint64_t Ring::OwnerOf(const Key& key) const {
  if (points_.empty()) return 0;
  const auto at =
      std::lower_bound(points_.begin(), points_.end(), std::pair(key.Word(0), uint64_t{0}));
  return at == points_.end() ? points_.front().second : at->second;
}

}  // namespace peercache
