#include "node/metrics.h"

#include <prometheus/text_serializer.h>

#include <chrono>

namespace peercache {
namespace {

using prometheus::MetricType;

std::vector<Sample> CounterSamples(const Counters& c) {
  const auto counter = [](const char* name, const char* help, const Counter& value,
                          std::vector<prometheus::ClientMetric::Label> labels = {}) {
    return Sample{name, help, MetricType::Counter, std::move(labels),
                  static_cast<double>(static_cast<uint64_t>(value))};
  };
  constexpr auto kMissHelp = "Pages not delivered, by reason.";
  constexpr auto kEngineHelp =
      "Connections of engines that were refused: user not in socket-uids, no Attach in time, "
      "oldest "
      "of too many that had not attached, too many engines or connections; and calls of engines "
      "that got no turn in time (busy).";
  constexpr auto kRefusedHelp = "Pages not stored, by reason.";
  return {
      counter("peercache_read_requests_total", "Pages that engines asked to read.",
              c.read_requests),
      counter("peercache_read_hits_total", "Pages delivered, by where they were found.",
              c.read_local_hits, {{"tier", "local"}}),
      counter("peercache_read_hits_total", "", c.read_remote_hits, {{"tier", "remote"}}),
      counter("peercache_read_hits_total", "", c.read_replica_hits, {{"tier", "replica"}}),
      counter("peercache_read_hits_total", "", c.read_shared_hits, {{"tier", "shared"}}),
      counter("peercache_read_misses_total", kMissHelp, c.miss_absent, {{"reason", "absent"}}),
      counter("peercache_read_misses_total", kMissHelp, c.miss_unreachable,
              {{"reason", "unreachable"}}),
      counter("peercache_read_misses_total", kMissHelp, c.miss_stale, {{"reason", "stale"}}),
      counter("peercache_read_misses_total", kMissHelp, c.miss_expired,
              {{"reason", "lease_expired"}}),
      counter("peercache_read_misses_total", kMissHelp, c.miss_copy, {{"reason", "engine_memory"}}),
      counter("peercache_read_misses_total", kMissHelp, c.miss_corrupt, {{"reason", "checksum"}}),
      counter("peercache_read_misses_total", kMissHelp, c.miss_no_view, {{"reason", "not_joined"}}),
      counter("peercache_read_bytes_total", "Bytes delivered to engines.", c.bytes_read),
      counter("peercache_read_verified_total", "Pages whose checksum was verified.", c.verified),
      counter("peercache_locations_recalled_total",
              "Pages to read whose location was known from an earlier lookup.",
              c.locations_recalled),
      counter("peercache_write_requests_total", "Pages that engines asked to store.",
              c.write_requests),
      counter("peercache_write_stored_total", "Pages stored and visible to every reader.",
              c.write_stored),
      counter("peercache_write_duplicates_total", "Pages that were here already.",
              c.write_duplicates),
      counter("peercache_write_refused_total", kRefusedHelp, c.refused_full, {{"reason", "full"}}),
      counter("peercache_write_refused_total", kRefusedHelp, c.refused_size, {{"reason", "size"}}),
      counter("peercache_write_refused_total", kRefusedHelp, c.refused_copy,
              {{"reason", "engine_memory"}}),
      counter("peercache_write_refused_total", kRefusedHelp, c.refused_unacknowledged,
              {{"reason", "unacknowledged"}}),
      counter("peercache_write_refused_total", kRefusedHelp, c.refused_no_view,
              {{"reason", "not_joined"}}),
      counter("peercache_write_bytes_total", "Bytes copied from engines.", c.bytes_written),
      counter("peercache_exists_requests_total", "Exists calls of engines.", c.exists_requests),
      counter("peercache_exists_pages_total", "Pages asked for by exists calls.", c.exists_pages),
      counter("peercache_exists_pages_found_total", "Pages in the leading runs found by exists.",
              c.exists_pages_found),
      counter("peercache_engine_bad_requests_total", "Requests of engines that were refused.",
              c.engine_bad_requests),
      counter("peercache_engine_refused_total", kEngineHelp, c.engine_refused_user,
              {{"reason", "user"}}),
      counter("peercache_engine_refused_total", kEngineHelp, c.engine_refused_slow,
              {{"reason", "slow_attach"}}),
      counter("peercache_engine_refused_total", kEngineHelp, c.engine_refused_crowded,
              {{"reason", "crowded_out"}}),
      counter("peercache_engine_refused_total", kEngineHelp, c.engine_refused_limit,
              {{"reason", "limit"}}),
      counter("peercache_engine_refused_total", kEngineHelp, c.engine_refused_busy,
              {{"reason", "busy"}}),
      counter("peercache_engine_calls_waited_total",
              "Calls that waited for another call of their engine to end (--engine-concurrency).",
              c.engine_calls_waited),
      counter("peercache_served_pages_total", "Pages sent to other nodes.", c.served_pages),
      counter("peercache_served_bytes_total", "Bytes sent to other nodes.", c.served_bytes),
      counter("peercache_served_absent_total",
              "Pages that other nodes asked for and that had moved on.", c.served_absent),
      counter("peercache_lookups_total", "Lookups answered by this node's shard.", c.lookups),
      counter("peercache_lookup_keys_total", "Keys in these lookups.", c.lookup_keys),
      counter("peercache_directory_republishes_total", "Pages re-published or moved by repair.",
              c.republished),
      counter("peercache_directory_withdrawals_total", "Records withdrawn before eviction.",
              c.withdrawn),
      counter("peercache_directory_withdrawals_unacknowledged_total",
              "Withdrawals whose shard did not answer; their slots rest longer.",
              c.withdraw_unacknowledged),
      counter("peercache_repair_passes_total", "Repair passes over the pool.", c.repair_passes),
      counter("peercache_heartbeats_total", "Heartbeats sent to the discovery hosts.",
              c.heartbeats),
      counter("peercache_heartbeat_failures_total", "Heartbeats without answer.",
              c.heartbeat_failures),
  };
}

void Append(std::vector<Sample> samples, std::vector<prometheus::MetricFamily>* families) {
  for (Sample& sample : samples) {
    if (families->empty() || families->back().name != sample.name) {
      prometheus::MetricFamily family;
      family.name = sample.name;
      family.help = sample.help;
      family.type = sample.type;
      families->push_back(std::move(family));
    }
    prometheus::ClientMetric metric;
    metric.label = std::move(sample.labels);
    if (sample.type == MetricType::Counter) {
      metric.counter.value = sample.value;
    } else {
      metric.gauge.value = sample.value;
    }
    families->back().metric.push_back(std::move(metric));
  }
}

}  // namespace

Metrics::Metrics(const Counters* counters, std::function<std::vector<Sample>()> gauges)
    : counters_(counters), gauges_(std::move(gauges)) {
  // 50 us .. 3.3 s, doubling: from a local exists to past the peer time-out.
  prometheus::Histogram::BucketBoundaries buckets;
  for (double bound = 50e-6; bound < 4; bound *= 2) buckets.push_back(bound);
  auto& family = prometheus::BuildHistogram()
                     .Name("peercache_op_latency_seconds")
                     .Help("Time an engine's call took in the node.")
                     .Register(registry_);
  latency_[0] = &family.Add({{"op", "set"}}, buckets);
  latency_[1] = &family.Add({{"op", "get"}}, buckets);
  latency_[2] = &family.Add({{"op", "exists"}}, buckets);
}

void Metrics::Observe(Op op, Duration took) {
  latency_[static_cast<int>(op)]->Observe(std::chrono::duration<double>(took).count());
}

std::string Metrics::Text() const {
  auto families = registry_.Collect();
  Append(CounterSamples(*counters_), &families);
  Append(gauges_(), &families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace peercache
