#include "measure.h"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace peercache::perf {
namespace {

// From one bucket's end to the next: what a percentile that is read from buckets may be off by.
constexpr double kHistogramStep = 1.02;

double Seconds(clockid_t clock) {
  timespec t{};
  if (clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

double CpuSeconds(std::span<const pid_t> others) {
  double seconds = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (const pid_t pid : others) {
    clockid_t clock{};
    if (clock_getcpuclockid(pid, &clock) == 0) seconds += Seconds(clock);
  }
  return seconds;
}

nlohmann::json Percentiles(std::vector<Duration>* samples) {
  nlohmann::json result = nlohmann::json::object();
  if (samples->empty()) return result;
  std::sort(samples->begin(), samples->end());
  const auto at = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(samples->size())));
    const Duration d = (*samples)[std::min(std::max<size_t>(rank, 1), samples->size()) - 1];
    return std::chrono::duration<double, std::micro>(d).count();
  };
  result["p50"] = at(0.50);
  result["p95"] = at(0.95);
  result["p99"] = at(0.99);
  result["p999"] = at(0.999);
  result["max"] = at(1);
  return result;
}

nlohmann::json Histogram(std::span<const Duration> samples) {
  nlohmann::json result = nlohmann::json::array();
  for (size_t i = 0; i < samples.size();) {
    const auto us = std::chrono::duration<double, std::micro>(samples[i]).count();
    const double step = std::ceil(std::log(std::max(us, 1e-3)) / std::log(kHistogramStep));
    const double limit = std::pow(kHistogramStep, step);
    size_t end = i + 1;
    while (end < samples.size() &&
           std::chrono::duration<double, std::micro>(samples[end]).count() <= limit)
      ++end;
    result.push_back({limit, end - i});
    i = end;
  }
  return result;
}

nlohmann::json Stopwatch::Result(std::span<Work> work) const {
  Work all;
  for (Work& w : work) {
    all.calls += w.calls;
    all.pages += w.pages;
    all.bytes += w.bytes;
    all.hits += w.hits;
    all.wrong += w.wrong;
    all.latencies.insert(all.latencies.end(), w.latencies.begin(), w.latencies.end());
  }
  nlohmann::json percentiles = Percentiles(&all.latencies);
  const double gigabytes = static_cast<double>(all.bytes) / 1e9;
  return {{"seconds", seconds_},
          {"calls", all.calls},
          {"pages", all.pages},
          {"hits", all.hits},
          {"wrong", all.wrong},
          {"bytes", all.bytes},
          {"gb_per_s", seconds_ > 0 ? gigabytes / seconds_ : 0},
          {"pages_per_s", seconds_ > 0 ? static_cast<double>(all.pages) / seconds_ : 0},
          {"calls_per_s", seconds_ > 0 ? static_cast<double>(all.calls) / seconds_ : 0},
          {"cpu_s", cpu_},
          {"cpu_s_per_gb", all.bytes > 0 ? cpu_ / gigabytes : 0},
          {"latency_us", std::move(percentiles)},
          {"latency_histogram", Histogram(all.latencies)}};
}

}  // namespace peercache::perf
