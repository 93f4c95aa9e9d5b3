#include "node/report/recorder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/thread.h"
#include "membership/fleet.h"
#include "node/report/flow.h"

namespace peercache {
namespace {

Observation Observe(const Recorded& of, const View* view, std::span<const Activity::Rail> rails,
                    TimePoint now) {
  Observation observed{view, of.peers->Unhealthy(now), {}, {}};
  for (const Activity::Rail& rail : rails)
    (rail.up ? observed.rails_up : observed.rails_down).push_back(rail.name);
  return observed;
}

}  // namespace

Recorder::~Recorder() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Recorder::Start() {
  auto started = StartThread([this] { Run(); });
  if (!started.ok()) return started.status();
  thread_ = std::move(*started);
  return {};
}

void Recorder::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    Look(Clock::now(), std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
    lock.lock();
    wake_.wait_for(lock, kLookEvery, [this] { return stop_; });
  }
}

Totals Recorder::Total() const {
  Totals totals;
  const PoolStats pool = of_.pool->stats();
  totals.flow = FlowOf(*of_.counters, pool.evictions);
  for (const PeerRef& peer : of_.peers->All())
    if (const uint64_t bytes = peer->read_bytes(); bytes > 0)
      totals.sources.push_back({peer->node(), bytes});
  if (of_.fabric != nullptr)
    for (const RailInfo& rail : of_.fabric->stats().rails)
      totals.rails.push_back({rail.name, rail.up, rail.stats.bytes});
  return totals;
}

void Recorder::Look(TimePoint now, History::Seconds wall) {
  Totals totals = Total();
  const uint64_t pool_used = of_.pool->stats().used_bytes;
  const auto view = of_.views->Get();
  const Observation observed = Observe(of_, view.get(), totals.rails, now);
  const bool step = step_from_ && now - step_began_ >= History::kStep;
  const auto reports = step ? of_.table->Reports(now) : std::vector<MemberReport>();

  std::lock_guard lock(mutex_);
  events_.Look(now, observed);
  if (step) {
    const auto length = std::chrono::duration_cast<milliseconds>(now - step_began_);
    node_.Note(wall, length, Between(*step_from_, totals.flow), pool_used);
    if (!reports.empty()) {
      const FleetSummary fleet = SummariseFleet(reports);
      fleet_.Note(wall, fleet.flow_length, fleet.flow, fleet.pool_used_bytes);
    }
  }
  if (step || !step_from_) {
    step_from_ = totals.flow;
    step_began_ = now;
  }
  window_.Note(now, std::move(totals));
}

std::optional<Activity> Recorder::Latest() const {
  std::lock_guard lock(mutex_);
  return window_.Latest(of_.machine);
}

std::optional<Activity> Recorder::ToTell(TimePoint now) {
  std::lock_guard lock(mutex_);
  if (now < tell_at_) return std::nullopt;
  tell_at_ = now + kTellEvery;
  return window_.Latest(of_.machine);
}

std::vector<PastEvent> Recorder::Past(TimePoint now) const {
  std::lock_guard lock(mutex_);
  return events_.Past(now);
}

std::string Recorder::HistoryJson() const {
  nlohmann::json document = {{"now", std::chrono::duration_cast<std::chrono::seconds>(
                                         std::chrono::system_clock::now().time_since_epoch())
                                         .count()},
                             {"step_seconds", History::kStep.count()},
                             {"steps", History::kSteps}};
  std::lock_guard lock(mutex_);
  document["node"] = node_.Json();
  if (fleet_.size() > 0) document["fleet"] = fleet_.Json();
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace peercache
