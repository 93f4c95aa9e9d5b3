#include "directory/ring.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>

namespace peercache {
namespace {

__extension__ using Wide = unsigned __int128;

// Points in one part of a circle, about: half a cache line.
constexpr size_t kPointsPerPart = 4;
// Weights within a factor of 8 share a circle: one circle more costs about as much as a walk that
// is longer by that factor.
constexpr int kClassBits = 3;
// `reach` below only saves steps: computed in floating point, it may be too long but not too short.
constexpr double kRoundingMargin = 1 + 1e-9;
constexpr double kLongestReach = 0x1p63;

// A hash of two words that are random already. Every node must agree on it, for ever.
uint64_t Mix(uint64_t a, uint64_t b) {
  const Wide product = Wide{a ^ b} * 0x9e3779b97f4a7c15u;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

std::vector<RingMember> Normalized(std::span<const RingMember> members) {
  std::vector<RingMember> result(members.begin(), members.end());
  std::sort(result.begin(), result.end(),
            [](const RingMember& a, const RingMember& b) { return a.node < b.node; });
  const auto same = [](const RingMember& a, const RingMember& b) { return a.node == b.node; };
  result.erase(std::unique(result.begin(), result.end(), same), result.end());
  for (RingMember& member : result) member.weight = std::max<uint64_t>(1, member.weight);
  return result;
}

struct Point {
  uint64_t position;
  uint32_t owner;  // index of the member
  // Equal positions in the order of their members, which is the same on every node.
  friend bool operator<(const Point& a, const Point& b) {
    return a.position != b.position ? a.position < b.position : a.owner < b.owner;
  }
};

// What a key has found so far.
struct Best {
  uint64_t distance = 0;
  const RingMember* owner = nullptr;

  // A point of this distance and weight goes before it.
  bool LosesTo(uint64_t other, uint64_t weight) const {
    return owner == nullptr || Wide{other} * owner->weight < Wide{distance} * weight;
  }
};

// The points of members of similar weight, sorted by position.
class Circle {
 public:
  // Points are random: distributing them over the parts leaves little to sort.
  Circle(std::span<const Point> points, uint64_t heaviest)
      : positions_(points.size()), owners_(points.size()), heaviest_(heaviest) {
    const auto parts = std::bit_floor(std::max<size_t>(2, points.size() / kPointsPerPart));
    shift_ = 64 - std::countr_zero(parts);
    starts_.assign(parts + 1, 0);
    for (const Point& point : points) ++starts_[PartOf(point.position) + 1];
    for (size_t part = 0; part < parts; ++part) starts_[part + 1] += starts_[part];
    auto next = starts_;
    std::vector<Point> sorted(points.size());
    for (const Point& point : points) sorted[next[PartOf(point.position)]++] = point;
    for (size_t part = 0; part < parts; ++part) {
      std::sort(sorted.begin() + starts_[part], sorted.begin() + starts_[part + 1]);
    }
    for (size_t i = 0; i < sorted.size(); ++i) {
      positions_[i] = sorted[i].position;
      owners_[i] = sorted[i].owner;
    }
  }

  // Improves *best by the points that let `salt` in, i.e. hash it to at most `let_in`.
  void Walk(std::span<const RingMember> members, uint64_t position, uint64_t salt, uint64_t let_in,
            Best* best) const {
    const size_t first = FirstAt(position);
    const uint64_t reach = Reach(*best);
    if (!WalkPart(first, positions_.size(), members, position, salt, let_in, reach, best)) {
      WalkPart(0, first, members, position, salt, let_in, reach, best);
    }
  }

 private:
  size_t PartOf(uint64_t position) const { return position >> shift_; }

  size_t FirstAt(uint64_t position) const {
    size_t at = starts_[PartOf(position)];
    const size_t end = starts_[PartOf(position) + 1];
    while (at < end && positions_[at] < position) ++at;
    return at;
  }

  // Beyond this distance not even the heaviest point goes before `best`.
  uint64_t Reach(const Best& best) const {
    if (best.owner == nullptr) return UINT64_MAX;
    const double reach = static_cast<double>(best.distance) /
                         static_cast<double>(best.owner->weight) * static_cast<double>(heaviest_) *
                         kRoundingMargin;
    return reach < kLongestReach ? static_cast<uint64_t>(reach) + 1 : UINT64_MAX;
  }

  // True when the points that follow cannot be better.
  bool WalkPart(size_t at, size_t end, std::span<const RingMember> members, uint64_t position,
                uint64_t salt, uint64_t let_in, uint64_t reach, Best* best) const {
    for (; at < end; ++at) {
      const uint64_t point = positions_[at];
      const uint64_t distance = point - position;  // modulo 2^64, as on a circle
      if (distance > reach) return true;
      if (Mix(salt, point) > let_in) continue;
      const RingMember& owner = members[owners_[at]];
      if (best->LosesTo(distance, owner.weight)) {
        *best = {distance, &owner};
        if (owner.weight == heaviest_) return true;
      } else if (!best->LosesTo(distance, heaviest_)) {
        return true;
      }
    }
    return false;
  }

  std::vector<uint64_t> positions_;
  std::vector<uint32_t> owners_;  // of each position
  std::vector<uint32_t> starts_;  // first point of each of many equal parts: no search for a place
  int shift_ = 0;
  uint64_t heaviest_ = 1;
};

}  // namespace

struct Ring::Layout {
  uint32_t vnodes = 1;
  std::vector<RingMember> members;
  std::vector<Circle> circles;
};

Ring::Ring(std::span<const RingMember> members, uint32_t vnodes,
           std::initializer_list<const Ring*> former) {
  if (members.empty()) return;
  auto layout = std::make_shared<Layout>();
  layout->vnodes = std::max(1u, vnodes);
  layout->members = Normalized(members);
  for (const Ring* ring : former) {
    if (ring == nullptr || ring->empty()) continue;
    if (ring->layout_->vnodes != layout->vnodes || ring->layout_->members != layout->members) {
      continue;
    }
    layout_ = ring->layout_;
    return;
  }
  // Heaviest first: what is found there shortens the walks among the lighter ones.
  std::map<int, std::vector<uint32_t>, std::greater<>> classes;
  for (uint32_t m = 0; m < layout->members.size(); ++m) {
    const int width = static_cast<int>(std::bit_width(layout->members[m].weight));
    classes[width / kClassBits].push_back(m);
  }
  std::vector<Point> points;
  for (const auto& [weight_class, owners] : classes) {
    uint64_t heaviest = 1;
    points.clear();
    for (const uint32_t m : owners) {
      const RingMember& member = layout->members[m];
      heaviest = std::max(heaviest, member.weight);
      for (uint32_t i = 0; i < layout->vnodes; ++i) {
        points.push_back({XXH3_64bits_withSeed(&member.node, sizeof(member.node), i), m});
      }
    }
    layout->circles.emplace_back(points, heaviest);
  }
  layout_ = std::move(layout);
}

std::span<const RingMember> Ring::members() const {
  return layout_ ? std::span<const RingMember>(layout_->members) : std::span<const RingMember>();
}

uint64_t Ring::Fingerprint() const {
  if (empty()) return 0;
  const auto& members = layout_->members;
  static_assert(sizeof(RingMember) == 16, "hashed as it lies in memory");
  return XXH3_64bits_withSeed(members.data(), members.size() * sizeof(RingMember), layout_->vnodes);
}

bool operator==(const Ring& a, const Ring& b) {
  if (a.layout_ == b.layout_) return true;
  return a.layout_ && b.layout_ && a.layout_->vnodes == b.layout_->vnodes &&
         a.layout_->members == b.layout_->members;
}

uint64_t Ring::OwnerOf(const Key& key) const {
  if (empty()) return 0;
  const Layout& layout = *layout_;
  if (layout.members.size() == 1) return layout.members.front().node;
  // With few points a key may find none that lets it in: then all do.
  for (const uint64_t let_in : {UINT64_MAX / kThinning, UINT64_MAX}) {
    Best best;
    for (const Circle& circle : layout.circles) {
      circle.Walk(layout.members, key.Word(0), key.Word(2), let_in, &best);
    }
    if (best.owner != nullptr) return best.owner->node;
  }
  return 0;  // not reached: the ring has a point, and it let everybody in
}

}  // namespace peercache
