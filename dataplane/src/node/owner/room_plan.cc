#include "node/owner/room_plan.h"

#include <algorithm>
#include <cmath>

#include "pool/size_class.h"

namespace peercache {
namespace {

// More than what the last turnaround took: rates vary, and evictions come in steps.
constexpr double kMargin = 1.25;
constexpr double kMarginWhenUnmet = 2;
// A writer that pauses for some seconds finds its reserve again.
constexpr Duration kHalfLife = std::chrono::seconds(10);
// Evictions go beyond the reserve by this share of it, so that a slow writer does not cause a
// withdrawal, which costs a message, for every page.
constexpr double kStep = 1.0 / 8;
// Part of a usable chunk that slots can fill, at worst (slot_table.h).
constexpr double kUsable = 7.0 / 8;
// A size that was set lately has this many slots in reserve, whatever its share.
constexpr double kFewestSlots = 2;
// A shorter turnaround counts by a quarter of the difference, a longer one at once.
constexpr int kTurnaroundStep = 4;
// Sets are paced when less than this share of the reserve is free...
constexpr double kPacedBelow = 1.0 / 2;
// ...to use up what is free in this part of a turnaround. A writer at the rate that the reserve is
// made for, which finds 1 - 1/kMargin of it free, may be twice as fast; one that is too fast ends
// at 8/9 of what the reserve can give, since the free part is 1/8 of what is on its way then.
constexpr double kBrake = 1.0 / 8;

}  // namespace

RoomPlan::RoomPlan(Watermarks watermarks, Duration turnaround)
    : watermarks_(watermarks), turnaround_(turnaround) {}

void RoomPlan::Unmet(size_t length, size_t refused) {
  Demand& demand = demands_[PayloadBytes(SizeClassOf(length))];
  demand.unmet = true;
  demand.refused += refused;
}

void RoomPlan::Returning(Duration after) {
  turnaround_ = after > turnaround_ ? after : turnaround_ - (turnaround_ - after) / kTurnaroundStep;
}

void RoomPlan::Update(const PoolUse::Size& size, TimePoint now, double fade, double floor) {
  Demand& demand = demands_[size.length];
  demand.samples.push_back({now, size.taken_bytes + demand.refused});
  // The first sample left is the last one from before the turnaround began.
  while (demand.samples.size() > 2 && demand.samples[1].at <= now - turnaround_)
    demand.samples.pop_front();
  const auto asked =
      static_cast<double>(demand.samples.back().asked - demand.samples.front().asked);
  double need = kMargin * asked;
  if (demand.unmet) need = std::max(kMarginWhenUnmet * asked, floor);
  demand.unmet = false;
  demand.need = std::max(need, demand.need * fade);
}

std::vector<RoomPlan::Eviction> RoomPlan::Decide(TimePoint now, const PoolUse& use) {
  const auto capacity = static_cast<double>(use.capacity_bytes);
  const double floor = capacity * (1 - watermarks_.high);
  const double ceiling = capacity * (1 - watermarks_.low);
  const double fade =
      last_ == TimePoint() ? 1 : std::exp2(-ToSeconds(now - last_) / ToSeconds(kHalfLife));
  last_ = now;

  struct Share {
    const PoolUse::Size* size;
    double need;
  };
  std::vector<Share> shares;
  double sum = 0;
  for (const PoolUse::Size& size : use.sizes) {
    Update(size, now, fade, floor);
    shares.push_back({&size, demands_[size.length].need});
    sum += shares.back().need;
  }
  const double target = std::clamp(sum, floor, ceiling);
  target_ = static_cast<size_t>(target);
  if (sum == 0) return {};
  std::sort(shares.begin(), shares.end(),
            [](const Share& a, const Share& b) { return a.need > b.need; });

  std::vector<Eviction> evictions;
  double usable = static_cast<double>(use.usable_bytes) * kUsable;
  for (const Share& share : shares) {
    if (share.need < 1) break;  // nothing was set for many half-lives
    const double fewest = kFewestSlots * static_cast<double>(share.size->slot_bytes);
    const double wanted = std::max(target * share.need / sum, std::min(fewest, ceiling));
    const auto coming = static_cast<double>(share.size->free_bytes + share.size->quarantined_bytes);
    const double of_usable = std::clamp(wanted * (1 + kStep) - coming, 0.0, usable);
    usable -= of_usable;
    if (coming + of_usable >= wanted) continue;
    const double missing = wanted * (1 + kStep) - coming - of_usable;
    evictions.push_back({share.size->length, static_cast<size_t>(missing)});
  }
  return evictions;
}

double RoomPlan::Pace(const PoolUse& use) const {
  auto free = static_cast<double>(use.usable_bytes);
  double slot = 0;  // the largest: it is not paced below one of these, which would be a stop
  for (const PoolUse::Size& size : use.sizes) {
    free += static_cast<double>(size.free_bytes);
    slot = std::max(slot, static_cast<double>(size.slot_bytes));
  }
  if (free >= static_cast<double>(target_) * kPacedBelow) return 0;
  return std::max(free, slot) / (kBrake * ToSeconds(turnaround_));
}

}  // namespace peercache
