// Ring: which member's shard holds a key's record. Consistent hashing, weighted by capacity.
// Immutable once built, cheap to copy; equal inputs (in any order) give equal rings on every node.
//
// Every member has `vnodes` points on a circle. A key starts at a place of the circle and walks
// clockwise; each point on its way lets in one of kThinning keys, by a hash of (key, point). With
// equal weights the first point that lets the key in owns it; else the one with the smallest
// distance / weight. What one point is to a key does not depend on the other points, so
//   - a join moves keys only to the new member, a leave only from the one that left, and a member
//     that gains weight only gains keys, whatever the weights;
//   - a member's share of the keys is, but for chance, its share of the weight.
//
// Why not the first point at all (classic consistent hashing)? A point's share would be one gap
// between random points, which has variance 1 (mean 1). Here it is a weighted sum of gaps, variance
// 1 / (2 * kThinning - 1). So a member's share of equal weights is within
//   1 +- z / sqrt(vnodes * (2 * kThinning - 1))
// of the fair one, where z is 3.9 for the worst of 10,000 members: 5.5 % with 160 points. The walk
// goes through neighbouring words of memory; the same balance from 31 times the points would cost
// cache misses in every lookup and a slow build. docs/dev/performance.md has the measurements.
//
// Points of members with similar weights are kept in a circle of their own, so that the walk stays
// short however unequal the weights are: in a lighter circle it ends where even the heaviest point
// would lose against what was found before.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "base/key.h"

namespace peercache {

struct RingMember {
  uint64_t node = 0;    // NodeHash
  uint64_t weight = 1;  // e.g. capacity in bytes; 0 counts as 1
  friend bool operator==(const RingMember&, const RingMember&) = default;
};

class Ring {
 public:
  // Larger: a better balance and a longer walk.
  static constexpr uint64_t kThinning = 16;

  Ring() = default;
  // `vnodes` points per member, at least one. At most 2^32 - 1 points. Takes over the points of a
  // former ring (null: none) that is equal.
  Ring(std::span<const RingMember> members, uint32_t vnodes,
       std::initializer_list<const Ring*> former = {});

  bool empty() const { return layout_ == nullptr; }
  // Sorted by node, without repetition.
  std::span<const RingMember> members() const;
  // A hash of what OwnerOf depends on: nodes whose rings have the same one agree on every owner. 0:
  // empty.
  uint64_t Fingerprint() const;
  // NodeHash of the owner; 0 when the ring is empty. Constant time on average.
  uint64_t OwnerOf(const Key& key) const;
  // Equal rings give every key the same owner.
  friend bool operator==(const Ring& a, const Ring& b);

 private:
  struct Layout;
  std::shared_ptr<const Layout> layout_;  // null: empty
};

}  // namespace peercache
