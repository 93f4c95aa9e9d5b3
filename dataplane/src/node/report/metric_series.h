// Words for the rows of the table of metrics (metric_families.h): what is counted on the way, and
// what is asked for at the time of a scrape.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "node/report/metric_families.h"

namespace peercache {

using Values = std::vector<std::string>;

// What is counted on the way, and what is asked for at the time of the scrape.
inline Series Of(Counter Counters::*counter, Values values = {}) {
  return {std::move(values),
          [counter](const Scrape& s) {
            return static_cast<double>(static_cast<uint64_t>(s.counters->*counter));
          },
          nullptr,
          {},
          {},
          {},
          {},
          {}};
}
template <typename Read>
Series Of(Read read, Values values = {}) {
  return {std::move(values),
          [read](const Scrape& s) { return static_cast<double>(read(s)); },
          nullptr,
          {},
          {},
          {},
          {},
          {}};
}
inline Series Of(LatencyHistogram Counters::*histogram, Values values = {}) {
  return {std::move(values), {}, histogram, {}, {}, {}, {}, {}};
}
// Always 1; the label says it.
inline Series Info(const char* what, std::function<std::string(const Scrape&)> named) {
  return {{what}, [](const Scrape&) { return 1.0; }, nullptr, std::move(named), {}, {}, {}, {}};
}
// One line for each rail of the node. `values`: of the labels after the rail's name.
inline Series EachRail(std::function<double(const RailInfo&)> read, Values values = {}) {
  values.insert(values.begin(), "name of the rail");
  return {std::move(values), {}, nullptr, {}, std::move(read), {}, {}, {}};
}
// One line for each tenant of the node. `values`: of the labels after the tenant's name.
inline Series EachTenant(std::function<double(const TenantInfo&)> read, Values values = {}) {
  values.insert(values.begin(), "name of the tenant");
  return {std::move(values), {}, nullptr, {}, {}, std::move(read), {}, {}};
}

constexpr auto kCounter = MetricType::kCounter;
constexpr auto kGauge = MetricType::kGauge;

// The sections, in files by subject.
MetricSection LookupMetrics();
MetricSection ReadMetrics();
MetricSection WriteMetrics();
MetricSection LatencyMetrics();
MetricSection EngineMetrics();
MetricSection TenantMetrics();
MetricSection PoolMetrics();
MetricSection RestartMetrics();
MetricSection DiskMetrics();
MetricSection DirectoryMetrics();
MetricSection MemberMetrics();
MetricSection ClearMetrics();
MetricSection DrainMetrics();
MetricSection PeerMetrics();
MetricSection TlsMetrics();
MetricSection FrameMetrics();
MetricSection HttpMetrics();
MetricSection FabricMetrics();
MetricSection NumaMetrics();
MetricSection ProcessMetrics();

}  // namespace peercache
