#include "node/report/activity_window.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "node/report/flow.h"

namespace peercache {
namespace {

uint64_t Gain(uint64_t before, uint64_t now) { return now - std::min(now, before); }

std::vector<Activity::Source> Busiest(const Totals& before, const Totals& now) {
  std::unordered_map<uint64_t, uint64_t> known;
  for (const Activity::Source& source : before.sources) known[source.node] = source.bytes;
  std::vector<Activity::Source> busiest;
  for (const Activity::Source& source : now.sources) {
    const uint64_t bytes = Gain(known[source.node], source.bytes);
    if (bytes > 0) busiest.push_back({source.node, bytes});
  }
  std::ranges::sort(busiest, [](const auto& a, const auto& b) {
    return std::pair(b.bytes, a.node) < std::pair(a.bytes, b.node);
  });
  if (busiest.size() > Activity::kMostSources) busiest.resize(Activity::kMostSources);
  return busiest;
}

std::vector<Activity::Rail> Gained(const Totals& before, const Totals& now) {
  std::vector<Activity::Rail> rails = now.rails;
  if (rails.size() > Activity::kMostRails) rails.resize(Activity::kMostRails);
  for (Activity::Rail& rail : rails) {
    const auto was = std::ranges::find(before.rails, rail.name, &Activity::Rail::name);
    rail.bytes = Gain(was == before.rails.end() ? 0 : was->bytes, rail.bytes);
  }
  return rails;
}

}  // namespace

void ActivityWindow::Note(TimePoint now, Totals totals) {
  looks_.push_back({now, std::move(totals)});
  while (looks_.size() > 2 && looks_[1].at <= now - kWindow) looks_.pop_front();
}

std::optional<Activity> ActivityWindow::Latest(uint32_t machine) const {
  if (looks_.size() < 2) return std::nullopt;
  const Look& from = looks_.front();
  const Look& to = looks_.back();
  const auto span = std::chrono::duration_cast<milliseconds>(to.at - from.at).count();
  Activity activity;
  // A process that was stopped looks late.
  activity.milliseconds =
      static_cast<uint32_t>(std::clamp<int64_t>(span, 1, Activity::kLongestMilliseconds));
  activity.machine = machine;
  activity.flow = Between(from.totals.flow, to.totals.flow);
  activity.sources = Busiest(from.totals, to.totals);
  activity.rails = Gained(from.totals, to.totals);
  return activity;
}

}  // namespace peercache
