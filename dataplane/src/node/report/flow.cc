#include "node/report/flow.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace peercache {
namespace {

using nlohmann::json;

static_assert(LatencyHistogram::kBounds + 1 == Flow::kBuckets);

std::array<uint64_t, Flow::kBuckets> BucketsOf(const LatencyHistogram& from) {
  std::array<uint64_t, Flow::kBuckets> buckets{};
  for (size_t b = 0; b < buckets.size(); ++b) buckets[b] = from.InBucket(b);
  return buckets;
}

uint64_t Since(uint64_t before, uint64_t now) { return now - std::min(now, before); }

template <size_t N>
std::array<uint64_t, N> Since(const std::array<uint64_t, N>& before,
                              const std::array<uint64_t, N>& now) {
  std::array<uint64_t, N> gain{};
  for (size_t i = 0; i < N; ++i) gain[i] = Since(before[i], now[i]);
  return gain;
}

template <size_t N, size_t M>
json Named(const std::array<const char*, N>& names, const std::array<uint64_t, M>& numbers) {
  json named = json::object();
  for (size_t i = 0; i < N; ++i) named[names[i]] = numbers[i];
  return named;
}

uint64_t CallsIn(std::span<const uint64_t, Flow::kBuckets> calls) {
  return std::accumulate(calls.begin(), calls.end(), uint64_t{0});
}

json OrNull(std::optional<double> number) { return number ? json(*number) : json(); }

}  // namespace

Flow FlowOf(const Counters& c, uint64_t evicted) {
  Flow flow;
  flow.looked_up = c.looked_up_pages();
  for (size_t i = 0; i < kPageSources; ++i) flow.delivered[i] = c.delivered[i].pages;
  // Read before what it is taken from grows.
  const uint64_t found = c.found.pages, sought = c.lookup_exists.pages;
  const uint64_t slower = c.slower_pages;
  const uint64_t missed[] = {Since(found + slower, sought),
                             c.miss_absent,
                             c.miss_unreachable,
                             c.miss_stale,
                             c.miss_expired,
                             c.miss_copy,
                             c.miss_corrupt,
                             c.miss_no_view,
                             c.miss_behind,
                             c.miss_given_up,
                             c.miss_disk_late,
                             c.miss_bypass,
                             c.miss_slower + slower};
  static_assert(std::size(missed) == kReasonNames.size());
  std::copy(std::begin(missed), std::end(missed), flow.missed.begin());
  flow.read_bytes = c.bytes_read();
  flow.written_bytes = c.bytes_written;
  flow.served_bytes = c.served_bytes;
  flow.evicted = evicted;
  flow.gets = BucketsOf(c.op_get);
  flow.sets = BucketsOf(c.op_set);
  return flow;
}

Flow Between(const Flow& before, const Flow& now) {
  Flow flow;
  flow.looked_up = Since(before.looked_up, now.looked_up);
  flow.delivered = Since(before.delivered, now.delivered);
  flow.missed = Since(before.missed, now.missed);
  flow.read_bytes = Since(before.read_bytes, now.read_bytes);
  flow.written_bytes = Since(before.written_bytes, now.written_bytes);
  flow.served_bytes = Since(before.served_bytes, now.served_bytes);
  flow.evicted = Since(before.evicted, now.evicted);
  flow.gets = Since(before.gets, now.gets);
  flow.sets = Since(before.sets, now.sets);
  return flow;
}

std::optional<double> QuantileSeconds(std::span<const uint64_t, Flow::kBuckets> calls,
                                      double share) {
  const double all = std::accumulate(calls.begin(), calls.end(), 0.0);
  if (all == 0) return std::nullopt;
  double below = 0;
  for (size_t b = 0; b + 1 < calls.size(); ++b) {
    const auto here = static_cast<double>(calls[b]);
    // Within a bucket, calls are taken for evenly spread.
    if (here > 0 && below + here >= share * all) {
      const double from = b == 0 ? 0 : LatencyHistogram::BoundSeconds(b - 1);
      const double to = LatencyHistogram::BoundSeconds(b);
      return from + (to - from) * (share * all - below) / here;
    }
    below += here;
  }
  return LatencyHistogram::BoundSeconds(LatencyHistogram::kBounds - 1);  // at least
}

json TiersJson(const Flow& flow) {
  json tiers = Named(kTierNames, flow.delivered);
  tiers.erase(kTierNames[static_cast<size_t>(PageSource::kNowhere)]);
  return tiers;
}

json ReasonsJson(const Flow& flow) { return Named(kReasonNames, flow.missed); }

json FlowJson(const Flow& flow, double seconds) {
  const auto rate = [&](uint64_t n) { return static_cast<double>(n) / seconds; };
  return {{"seconds", seconds},
          {"looked_up", flow.looked_up},
          {"delivered", TiersJson(flow)},
          {"missed", ReasonsJson(flow)},
          {"read_bytes_per_second", rate(flow.read_bytes)},
          {"written_bytes_per_second", rate(flow.written_bytes)},
          {"served_bytes_per_second", rate(flow.served_bytes)},
          {"evicted_per_second", rate(flow.evicted)},
          {"gets", CallsIn(flow.gets)},
          {"sets", CallsIn(flow.sets)},
          {"get_p50_seconds", OrNull(QuantileSeconds(flow.gets, 0.5))},
          {"get_p99_seconds", OrNull(QuantileSeconds(flow.gets, 0.99))},
          {"set_p50_seconds", OrNull(QuantileSeconds(flow.sets, 0.5))},
          {"set_p99_seconds", OrNull(QuantileSeconds(flow.sets, 0.99))}};
}

}  // namespace peercache
