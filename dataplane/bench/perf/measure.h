// Measure: what all measurements share: time per call, CPU seconds of processes, one JSON object
// as the result. Latencies are kept one by one: a run makes at most a few million calls.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace peercache::perf {

// One measurement; again and again in the same memory and over the same connections. Memory that
// was just mapped is slower for a while, the more so in a guest, whose host maps it as well.
using Measurement = std::function<Result<nlohmann::json>()>;

// CPU seconds (user and system) used so far by this process and by `others`.
double CpuSeconds(std::span<const pid_t> others);

// Nearest-rank percentiles of `samples`, in microseconds: p50 p95 p99 p999 max. Sorts them.
nlohmann::json Percentiles(std::vector<Duration>* samples);

// Of sorted samples: [upper end in microseconds, count] of every bucket that is not empty. Buckets
// are 2 % wide, so that the percentiles of several processes can be had from the sum of theirs.
nlohmann::json Histogram(std::span<const Duration> samples);

// One thread's share of a measurement.
struct Work {
  uint64_t calls = 0, pages = 0, bytes = 0;
  uint64_t hits = 0;   // pages that were there, or were stored
  uint64_t wrong = 0;  // pages whose bytes were not the ones of their key
  std::vector<Duration> latencies;
};

class Stopwatch {
 public:
  explicit Stopwatch(std::vector<pid_t> others) : others_(std::move(others)) {}
  void Start() {
    cpu_ = CpuSeconds(others_);
    start_ = Clock::now();
  }
  void Stop() {
    seconds_ = std::chrono::duration<double>(Clock::now() - start_).count();
    cpu_ = CpuSeconds(others_) - cpu_;
  }
  // Adds up the threads' work.
  nlohmann::json Result(std::span<Work> work) const;

 private:
  const std::vector<pid_t> others_;
  TimePoint start_{};
  double cpu_ = 0, seconds_ = 0;
};

}  // namespace peercache::perf
