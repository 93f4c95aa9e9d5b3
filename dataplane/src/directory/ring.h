// Ring: which member's shard holds a key's record. Consistent hashing with virtual nodes, weighted by
// capacity. Immutable once built; equal inputs give equal rings on every node.
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
  // `vnodes` points for a member of average weight; each member has at least one.
  Ring(std::span<const RingMember> members, uint32_t vnodes);

  bool empty() const { return points_.empty(); }
  // NodeHash of the owner; 0 when the ring is empty. O(log points).
  uint64_t OwnerOf(const Key& key) const;

 private:
  std::vector<std::pair<uint64_t, uint64_t>> points_;  // (position, node), sorted
};

}  // namespace peercache
