// Ring: which member's shard holds a key's record. Consistent hashing with virtual nodes, weighted
// by capacity. Immutable once built; equal inputs (in any order) give equal rings on every node.
//
// With 160 points per member of average weight a member's share of the keys is within 30 % of its
// share of the weight (the spread of a share is about 1/sqrt(points)). When members have equal
// weights, a join moves keys only to the new member and a leave only from the one that left; with
// unequal weights the average changes too, and a few more keys move than that.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/key.h"

namespace peercache {

struct RingMember {
  uint64_t node = 0;    // NodeHash
  uint64_t weight = 1;  // e.g. capacity in bytes; 0 counts as the smallest weight
};

class Ring {
 public:
  Ring() = default;
  // `vnodes` points for a member of average weight; each member has at least one. At most 2^28
  // points.
  Ring(std::span<const RingMember> members, uint32_t vnodes);

  bool empty() const { return points_.empty(); }
  // NodeHash of the owner; 0 when the ring is empty. O(log points).
  uint64_t OwnerOf(const Key& key) const;
  friend bool operator==(const Ring&, const Ring&) = default;

 private:
  std::vector<std::pair<uint64_t, uint64_t>> points_;  // (position, node), sorted
};

}  // namespace peercache
