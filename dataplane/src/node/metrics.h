// Metrics: /metrics in Prometheus text format. Counters are read from Counters at scrape time; only
// the latency histograms are updated on the way, once per call (not per page).
//
// Thread-safe.
#pragma once

#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "node/counters.h"

namespace peercache {

// One value read at scrape time.
struct Sample {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  std::vector<prometheus::ClientMetric::Label> labels;
  double value = 0;
};

class Metrics {
 public:
  enum class Op : uint8_t { kSet, kGet, kExists };

  // `gauges` is called at every scrape, for what Counters does not hold.
  Metrics(const Counters* counters, std::function<std::vector<Sample>()> gauges);

  void Observe(Op op, Duration took);
  std::string Text() const;

 private:
  const Counters* const counters_;
  const std::function<std::vector<Sample>()> gauges_;
  prometheus::Registry registry_;
  prometheus::Histogram* latency_[3];
};

}  // namespace peercache
