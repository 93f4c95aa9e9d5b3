#include "node/health_report.h"

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

RecentReads::Gain RecentReads::Note(TimePoint now, uint64_t reads, uint64_t hits) {
  if (samples_.empty() || now - samples_.back().at >= kStep) samples_.push_back({now, reads, hits});
  while (samples_.size() > 1 && samples_[1].at <= now - kWindow) samples_.pop_front();
  const Sample& from = samples_.front();
  Gain gain;
  gain.reads = reads - std::min(reads, from.reads);
  // A page is counted as asked for before it is as found, but the two are not read at one instant.
  gain.hits = std::min(gain.reads, hits - std::min(hits, from.hits));
  return gain;
}

HealthReport::HealthReport(std::string group, const Counters* counters, const Pool* pool,
                           const Fabric* fabric)
    : group_(std::move(group)), counters_(counters), pool_(pool), fabric_(fabric) {}

void HealthReport::Serve(const EngineServer* engines, const NumaHome* numa) {
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
  std::lock_guard lock(mutex_);
  const Counters& c = *counters_;
  const RecentReads::Gain gain = recent_.Note(
      now, c.read_requests,
      c.read_local_hits + c.read_remote_hits + c.read_shared_hits + c.read_replica_hits);
  health.recent_reads = gain.reads;
  health.recent_hits = gain.hits;
  if (engines_ != nullptr) health.engines = static_cast<uint32_t>(engines_->engines().size());
  if (numa_ != nullptr && now >= look_at_numa_) {
    placement_ = JudgeNuma(numa_->stats());
    look_at_numa_ = now + kLookAtNumaEvery;
  }
  health.numa = numa_ != nullptr ? placement_ : NumaHealth::kUnknown;
  return health;
}

}  // namespace peercache
