// Metrics: /metrics in Prometheus text format. Values are read at scrape time; on the way there are
// only the atomics of Counters.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "node/counters.h"

namespace peercache {

struct Scrape;  // metric_families.h

class Metrics {
 public:
  enum class Op : uint8_t { kSet, kGet, kExists, kPresence };

  // `scrape` is called at every scrape.
  Metrics(Counters* counters, std::function<Scrape()> scrape);

  // Once per call of an engine.
  void Observe(Op op, Duration took) { op_latency_[static_cast<int>(op)]->Observe(took); }
  std::string Text() const;

 private:
  LatencyHistogram* const op_latency_[4];
  const std::function<Scrape()> scrape_;
};

// The exposition of one scrape: every series of every family. Pure.
std::string MetricsText(const Scrape& scrape);

}  // namespace peercache
