// What a ring does to a cluster, computed instead of sampled, for tests and measurements.
//
//   auto shares = SimulateShares(members, vnodes, &rng);   // per member, sums to 1
//   Balance balance = BalanceOf(members, shares);          // against the weights
//
// To the ring a key is a place on the circle and, at each point, an independent chance of
// 1 / kThinning to be let in; only the places have to be sampled, and with equal weights not even
// they: all places between two points have the same points ahead in the same order.
#pragma once

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "directory/ring.h"

namespace peercache {

struct Balance {
  double most = 0, least = 1e9;  // of share / fair share over all members
};

inline double TotalWeight(std::span<const RingMember> members) {
  double total = 0;
  for (const RingMember& member : members) total += static_cast<double>(member.weight);
  return total;
}

struct SimulatedPoint {
  uint64_t position;
  uint32_t member;
};

inline std::vector<SimulatedPoint> SimulatedPoints(std::span<const RingMember> members,
                                                   uint32_t vnodes) {
  std::vector<SimulatedPoint> points;
  points.reserve(members.size() * vnodes);
  for (uint32_t m = 0; m < members.size(); ++m) {
    for (uint32_t i = 0; i < vnodes; ++i) {
      const uint64_t node = members[m].node;
      points.push_back({XXH3_64bits_withSeed(&node, sizeof(node), i), m});
    }
  }
  std::sort(points.begin(), points.end(), [](const SimulatedPoint& a, const SimulatedPoint& b) {
    return a.position < b.position;
  });
  return points;
}

constexpr double kChanceToBeLetIn = 1.0 / static_cast<double>(Ring::kThinning);

// Exact, for members of equal weight.
inline std::vector<double> EqualShares(size_t members, std::span<const SimulatedPoint> points) {
  std::vector<double> shares(members);
  double arriving = 0;                       // keys that reach the point
  for (int round = 0; round < 2; ++round) {  // the first one only finds who arrives from behind
    uint64_t before = points.back().position;
    for (const SimulatedPoint& point : points) {
      arriving += static_cast<double>(point.position - before) * 0x1p-64;
      before = point.position;
      if (round == 1) shares[point.member] += arriving * kChanceToBeLetIn;
      arriving *= 1 - kChanceToBeLetIn;
    }
  }
  return shares;
}

// From places that are spread over the gaps between the points.
inline std::vector<double> SampledShares(std::span<const RingMember> members,
                                         std::span<const SimulatedPoint> points,
                                         std::mt19937_64* rng) {
  constexpr size_t kFewestPlaces = 6'000;
  // 0.2 % of the keys are let in by none of so many points; they are left out.
  constexpr size_t kRanks = 96;
  struct Candidate {
    double score;
    uint32_t member;
    bool operator<(const Candidate& other) const { return score < other.score; }
  };
  double heaviest = 0;
  for (const RingMember& member : members) {
    heaviest = std::max(heaviest, static_cast<double>(member.weight));
  }
  std::vector<double> shares(members.size());
  std::vector<Candidate> candidates;
  double sum = 0;
  const size_t places = points.size() * (1 + kFewestPlaces / points.size());
  for (size_t i = 0; i < places; ++i) {
    const size_t gap = i % points.size();
    const uint64_t start = points[gap].position;
    const uint64_t length = points[(gap + 1) % points.size()].position - start;
    if (length == 0) continue;
    const uint64_t place = start + 1 + (*rng)() % length;
    candidates.clear();
    double reach = 1e300;  // farther points cannot be among the first kRanks
    for (size_t walked = 1; walked <= points.size(); ++walked) {
      const SimulatedPoint& point = points[(gap + walked) % points.size()];
      const auto distance = static_cast<double>(point.position - place);
      if (distance > reach) break;
      candidates.push_back(
          {distance / static_cast<double>(members[point.member].weight), point.member});
      if (candidates.size() % kRanks == 0) {
        const auto last = candidates.begin() + kRanks - 1;
        std::nth_element(candidates.begin(), last, candidates.end());
        reach = last->score * heaviest;
      }
    }
    const size_t ranks = std::min(kRanks, candidates.size());
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(ranks),
                      candidates.end());
    double chance = kChanceToBeLetIn * static_cast<double>(length);
    for (size_t rank = 0; rank < ranks; ++rank, chance *= 1 - kChanceToBeLetIn) {
      shares[candidates[rank].member] += chance;
      sum += chance;
    }
  }
  for (double& share : shares) share /= sum;
  return shares;
}

// The share of the keys that each member owns.
inline std::vector<double> SimulateShares(std::span<const RingMember> members, uint32_t vnodes,
                                          std::mt19937_64* rng) {
  const auto points = SimulatedPoints(members, vnodes);
  const bool equal = std::all_of(members.begin(), members.end(), [&](const RingMember& member) {
    return member.weight == members.front().weight;
  });
  return equal ? EqualShares(members.size(), points) : SampledShares(members, points, rng);
}

inline Balance BalanceOf(std::span<const RingMember> members, std::span<const double> shares) {
  const double total = TotalWeight(members);
  Balance balance;
  for (size_t i = 0; i < members.size(); ++i) {
    const double ratio = shares[i] * total / static_cast<double>(members[i].weight);
    balance.most = std::max(balance.most, ratio);
    balance.least = std::min(balance.least, ratio);
  }
  return balance;
}

enum class Capacities { kEqual, kMixed };

// Members of a simulated cluster: 64 GiB each, or 16, 32, 64 and 128 GiB in random order.
inline std::vector<RingMember> SimulatedMembers(size_t count, Capacities capacities,
                                                std::mt19937_64* rng) {
  std::vector<RingMember> members;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t weight =
        capacities == Capacities::kEqual ? uint64_t{64} << 30 : uint64_t{16} << (30 + (*rng)() % 4);
    members.push_back({(*rng)(), weight});
  }
  return members;
}

}  // namespace peercache
