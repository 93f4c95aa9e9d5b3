#include "node/report/history.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "node/report/flow.h"

namespace peercache {
namespace {

using nlohmann::json;

// Three digits of a time are what buckets that double tell.
json Rounded(const json& seconds) {
  return seconds.is_null() ? seconds : json(std::round(seconds.get<double>() * 1e6) / 1e6);
}

}  // namespace

void History::Note(Seconds at, std::chrono::milliseconds length, const Flow& flow,
                   uint64_t pool_used) {
  const Step step{at, std::chrono::duration<double>(length).count(), flow, pool_used};
  if (steps_.size() < kSteps) {
    steps_.push_back(step);
  } else {
    steps_[oldest_] = step;
    oldest_ = (oldest_ + 1) % kSteps;
  }
}

json History::Json() const {
  // All the columns, also without a step.
  json columns = {{"at", json::array()},
                  {"pool_used_bytes", json::array()},
                  {"looked_up", json::array()},
                  {"delivered", json::object()},
                  {"missed", json::object()}};
  constexpr const char* kRates[] = {"read_bytes_per_second", "written_bytes_per_second",
                                    "served_bytes_per_second"};
  constexpr const char* kTimes[] = {"get_p50_seconds", "get_p99_seconds", "set_p50_seconds",
                                    "set_p99_seconds"};
  for (const char* name : kRates) columns[name] = json::array();
  for (const char* name : kTimes) columns[name] = json::array();
  for (const auto& [kind, names] :
       {std::pair("delivered", TiersJson({})), std::pair("missed", ReasonsJson({}))})
    for (const auto& [name, none] : names.items()) columns[kind][name] = json::array();
  Flow sum;
  double seconds = 0;
  for (size_t n = 0; n < steps_.size(); ++n) {
    const Step& step = Nth(n);
    const json flow = FlowJson(step.flow, step.seconds);
    columns["at"].push_back(step.at.time_since_epoch().count());
    columns["pool_used_bytes"].push_back(step.pool_used);
    columns["looked_up"].push_back(step.flow.looked_up);
    for (const char* kind : {"delivered", "missed"})
      for (const auto& [name, pages] : flow[kind].items()) columns[kind][name].push_back(pages);
    for (const char* name : kRates) columns[name].push_back(std::round(flow[name].get<double>()));
    for (const char* name : kTimes) columns[name].push_back(Rounded(flow[name]));
    sum.Add(step.flow);
    seconds += step.seconds;
  }
  columns["sum"] = seconds > 0 ? FlowJson(sum, seconds) : json();
  return columns;
}

}  // namespace peercache
