#include "node/report/health_report.h"

#include <algorithm>
#include <utility>

#include "wire/fabric.h"

namespace peercache {

NumaHealth JudgeNuma(const NumaStats& numa) {
  if (numa.wish.node < 0) return NumaHealth::kNotApplicable;
  if (numa.cpus.empty()) return NumaHealth::kThreadsElsewhere;
  if (numa.pool.known() && numa.pool.elsewhere > 0) return NumaHealth::kMemoryElsewhere;
  // Pages that nobody has touched yet can only come from there when they are bound.
  const bool bound = numa.memory.memory == NumaMemory::kBound;
  return numa.pool.known() || bound ? NumaHealth::kAligned : NumaHealth::kUnknown;
}

RecentLookups::Gain RecentLookups::Note(TimePoint now, uint64_t looked_up, uint64_t delivered) {
  if (samples_.empty() || now - samples_.back().at >= step_)
    samples_.push_back({now, looked_up, delivered});
  while (samples_.size() > 1 && samples_[1].at <= now - window_) samples_.pop_front();
  const Sample& from = samples_.front();
  Gain gain;
  gain.looked_up = looked_up - std::min(looked_up, from.looked_up);
  // A page may have been looked up before the window and be delivered in it.
  gain.delivered = std::min(gain.looked_up, delivered - std::min(delivered, from.delivered));
  return gain;
}

Activity::Drives DrivesOf(const DiskReport& report) {
  Activity::Drives drives;
  for (const disk::DeviceHealth& device : report.tier.devices) {
    ++drives.total;
    if (!device.on) {
      if (drives.off.empty()) drives.off = device.path;
      continue;
    }
    ++drives.on;
    if (!device.recovered) ++drives.recovering;
    drives.used_bytes += device.used_bytes();
    drives.capacity_bytes += device.bytes;
  }
  drives.budget_bytes = report.budget_a_day;
  // Below 0 while more is on its way than was left.
  const double left = std::max(report.tier.budget_left, 0.0);
  drives.budget_left_bytes = left < static_cast<double>(report.budget_a_day)
                                 ? static_cast<uint64_t>(left)
                                 : report.budget_a_day;
  return drives;
}

HealthReport::HealthReport(std::string group, const Counters* counters, const Pool* pool,
                           const Fabric* fabric, Recorder* recorder, const DiskPages* disk)
    : group_(std::move(group)),
      counters_(counters),
      pool_(pool),
      fabric_(fabric),
      recorder_(recorder),
      disk_(disk) {}

void HealthReport::Serve(const EngineSockets* engines, const NumaHome* numa) {
  std::lock_guard lock(mutex_);
  engines_ = engines;
  numa_ = numa;
}

void HealthReport::Stop() { Serve(nullptr, nullptr); }

MemberHealth HealthReport::Now(TimePoint now) {
  MemberHealth health;
  health.group = group_;
  health.pool_used_bytes = pool_->stats().used_bytes;
  if (fabric_ != nullptr) {
    for (const RailInfo& rail : fabric_->stats().rails) {
      if (health.rails == kMaxRails) break;
      ++health.rails;
      if (rail.up) {
        ++health.rails_up;
      } else if (health.rail_down.empty()) {
        health.rail_down = rail.name;
      }
    }
  }
  if (recorder_ != nullptr) health.activity = recorder_->ToTell(now);
  if (health.activity && disk_ != nullptr) health.activity->drives = DrivesOf(disk_->report());
  std::lock_guard lock(mutex_);
  const Counters& c = *counters_;
  const uint64_t delivered = c.delivered_pages(), looked_up = c.looked_up_pages();
  const RecentLookups::Gain recent = recent_.Note(now, looked_up, delivered);
  health.recent_looked_up = recent.looked_up;
  health.recent_delivered = recent.delivered;
  const RecentLookups::Gain latest = latest_.Note(now, looked_up, delivered);
  health.latest_looked_up = latest.looked_up;
  health.latest_delivered = latest.delivered;
  if (engines_ != nullptr) health.engines = static_cast<uint32_t>(engines_->engines().size());
  if (numa_ != nullptr && now >= look_at_numa_) {
    placement_ = JudgeNuma(numa_->stats());
    look_at_numa_ = now + kLookAtNumaEvery;
  }
  health.numa = numa_ != nullptr ? placement_ : NumaHealth::kUnknown;
  return health;
}

}  // namespace peercache
