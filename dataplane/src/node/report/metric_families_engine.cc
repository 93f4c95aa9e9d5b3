// What engines ask and get: reads, writes, their latency, and the engines themselves.
#include "node/report/metric_series.h"

namespace peercache {
namespace {

constexpr auto kHistogram = MetricType::kHistogram;

}  // namespace

MetricSection LookupMetrics() {
  // Of one of the two halves of a PageCounter.
  const auto of = [](auto counter, Counter PageCounter::*half, Values values) {
    return Of([=](const Scrape& s) { return uint64_t{counter(*s.counters).*half}; },
              std::move(values));
  };
  const auto by_op = [&](Counter PageCounter::*half) -> std::vector<Series> {
    return {
        of([](const Counters& c) -> const PageCounter& { return c.lookup_exists; }, half,
           {"exists"}),
        of([](const Counters& c) -> const PageCounter& { return c.lookup_get; }, half, {"get"})};
  };
  const auto found = [&](Counter PageCounter::*half) -> std::vector<Series> {
    return {of([](const Counters& c) -> const PageCounter& { return c.found; }, half, {})};
  };
  const auto by_tier = [&](Counter PageCounter::*half) {
    constexpr std::pair<PageSource, const char*> kTiers[] = {
        {PageSource::kLocal, "local"},   {PageSource::kReplica, "replica"},
        {PageSource::kShared, "shared"}, {PageSource::kTcp, "tcp"},
        {PageSource::kRdma, "rdma"},     {PageSource::kMapped, "mapped"},
        {PageSource::kDisk, "disk"}};
    std::vector<Series> series;
    for (const auto& [source, name] : kTiers) {
      const auto index = static_cast<size_t>(source);
      series.push_back(
          of([index](const Counters& c) -> const PageCounter& { return c.delivered[index]; }, half,
             {name}));
    }
    return series;
  };
  return {
      "Lookups",
      "What engines look up and what they get of it. A page is counted once, however many keys it "
      "has: see [the hit ratio](hit-ratio.md).",
      {
          {"peercache_lookup_pages_total",
           kCounter,
           "Pages that engines looked up: asked for by an exists call, or got without one (get).",
           {"op"},
           by_op(&PageCounter::pages),
           "What is the hit ratio?",
           "sum(rate(peercache_delivered_pages_total[5m])) / "
           "sum(rate(peercache_lookup_pages_total[5m]))"},
          {"peercache_lookup_tokens_total",
           kCounter,
           "Tokens of these pages, of engines that report how many a page has.",
           {"op"},
           by_op(&PageCounter::tokens),
           "What is the hit ratio by tokens?",
           "sum(rate(peercache_delivered_tokens_total[5m])) / "
           "sum(rate(peercache_lookup_tokens_total[5m]))"},
          {"peercache_lookup_found_pages_total",
           kCounter,
           "Pages in the leading runs that exists calls found.",
           {},
           found(&PageCounter::pages),
           "What share of the pages that are found do engines never get?",
           "1 - sum(rate(peercache_delivered_pages_total[5m])) / "
           "(sum(rate(peercache_lookup_found_pages_total[5m])) + "
           "sum(rate(peercache_lookup_pages_total{op=\"get\"}[5m])))"},
          {"peercache_lookup_found_tokens_total",
           kCounter,
           "Tokens of these pages.",
           {},
           found(&PageCounter::tokens)},
          {"peercache_delivered_pages_total",
           kCounter,
           "Pages that engines got, by where they were found: the own pool (local), this node's "
           "copy of another node's page (replica), a call of this node that was bringing the page "
           "anyway (shared), another node over TCP (tcp) or RDMA (rdma), the pool of a node on "
           "this "
           "machine (mapped).",
           {"tier"},
           by_tier(&PageCounter::pages),
           "Where do hits come from?",
           "sum by (tier) (rate(peercache_delivered_pages_total[5m]))"},
          {"peercache_delivered_tokens_total",
           kCounter,
           "Tokens of these pages.",
           {"tier"},
           by_tier(&PageCounter::tokens),
           "How many tokens a second need no prefill? (each rank counts its own)",
           "sum(rate(peercache_delivered_tokens_total[5m]))"},
      }};
}

MetricSection ReadMetrics() {
  return {
      "Reads",
      "Pages that engines get, each under a key of its own. Every page asked for is a hit of one "
      "tier or a miss with a reason.",
      {
          {"peercache_read_requests_total",
           kCounter,
           "Pages that engines asked to read. SGLang reads only what exists calls found, not all "
           "that it looked up.",
           {},
           {Of(&Counters::read_requests)}},
          {"peercache_read_hits_total",
           kCounter,
           "Pages delivered, by where they were found: the own pool (local), another node "
           "(remote), "
           "a call of this node that was bringing the page anyway (shared), this node's copy of "
           "another node's page (replica), or this node's drives (disk).",
           {"tier"},
           {Of(&Counters::read_local_hits, {"local"}), Of(&Counters::read_remote_hits, {"remote"}),
            Of(&Counters::read_shared_hits, {"shared"}),
            Of(&Counters::read_replica_hits, {"replica"}), Of(&Counters::read_disk_hits, {"disk"})},
           "What share of the pages that are read does not arrive?",
           "1 - sum(rate(peercache_read_hits_total[5m])) / "
           "sum(rate(peercache_read_requests_total[5m]))"},
          {"peercache_read_bytes_total",
           kCounter,
           "Bytes delivered to engines, by where they were found; only those of tier remote "
           "crossed "
           "the network.",
           {"tier"},
           {Of(&Counters::bytes_local, {"local"}), Of(&Counters::bytes_remote, {"remote"}),
            Of(&Counters::bytes_shared, {"shared"}), Of(&Counters::bytes_replica, {"replica"}),
            Of(&Counters::bytes_disk, {"disk"})},
           "How much of the network do single flight and replicas save?",
           "sum(rate(peercache_read_bytes_total{tier=~\"shared|replica\"}[5m])) / "
           "sum(rate(peercache_read_bytes_total{tier!=\"local\"}[5m]))"},
          {"peercache_read_misses_total",
           kCounter,
           "Pages not delivered, by reason: no member has it (absent), its holder or the shard "
           "that "
           "knows where it is does not answer (unreachable), it moved on twice (stale), "
           "it came too late to be trusted (lease_expired), the engine's memory could not be "
           "written (engine_memory), its bytes were wrong (checksum), this node knows no member "
           "yet (not_joined), it may have missed a clear while it was stopped or cut off (behind), "
           "the engine waited no longer and took its memory back (given_up), another node did not "
           "bring it from its disk in time (disk_late), the cache is bypassed (bypass), computing "
           "it "
           "takes the engine less time than bringing it (slower).",
           {"reason"},
           {Of(&Counters::miss_absent, {"absent"}),
            Of(&Counters::miss_unreachable, {"unreachable"}), Of(&Counters::miss_stale, {"stale"}),
            Of(&Counters::miss_expired, {"lease_expired"}),
            Of(&Counters::miss_copy, {"engine_memory"}), Of(&Counters::miss_corrupt, {"checksum"}),
            Of(&Counters::miss_no_view, {"not_joined"}), Of(&Counters::miss_behind, {"behind"}),
            Of(&Counters::miss_given_up, {"given_up"}),
            Of(&Counters::miss_disk_late, {"disk_late"}), Of(&Counters::miss_bypass, {"bypass"}),
            Of(&Counters::miss_slower, {"slower"})},
           "Why are pages missed that should have been there? (checksum at all: memory or network "
           "corrupts bytes)",
           "sum by (reason) (rate(peercache_read_misses_total{reason!=\"absent\"}[5m])) > 0"},
          {"peercache_read_verified_total",
           kCounter,
           "Pages whose checksum was verified on a read.",
           {},
           {Of(&Counters::verified)}},
          {"peercache_locations_recalled_total",
           kCounter,
           "Pages to read whose location was known from an earlier lookup, so that none was "
           "needed.",
           {},
           {Of(&Counters::locations_recalled)}},
          {"peercache_exists_requests_total",
           kCounter,
           "Exists calls of engines.",
           {},
           {Of(&Counters::exists_requests)}},
          {"peercache_exists_pages_total",
           kCounter,
           "Pages asked for by exists calls.",
           {},
           {Of(&Counters::exists_pages)}},
          {"peercache_exists_pages_found_total",
           kCounter,
           "Pages in the leading runs that exists calls found.",
           {},
           {Of(&Counters::exists_pages_found)}},
          {"peercache_slower_pages_total",
           kCounter,
           "Pages that exists and presence calls found and did not promise, because computing them "
           "takes the engine less time than bringing them from where they are.",
           {},
           {Of(&Counters::slower_pages)},
           "Which share of what is in the cache is not worth bringing?",
           "rate(peercache_slower_pages_total[5m]) / "
           "(rate(peercache_slower_pages_total[5m]) + "
           "rate(peercache_exists_pages_found_total[5m]))"},
          {"peercache_presence_requests_total",
           kCounter,
           "Presence calls of engines: those of hybrid models, which ask for each page of a pool.",
           {},
           {Of(&Counters::presence_requests)}},
          {"peercache_presence_pages_total",
           kCounter,
           "Pages asked for by presence calls. A sparse pool (Mamba states) has few of them.",
           {},
           {Of(&Counters::presence_pages)}},
          {"peercache_presence_pages_found_total",
           kCounter,
           "Pages that presence calls found.",
           {},
           {Of(&Counters::presence_pages_found)}},
          {"peercache_read_elsewhere_total",
           kCounter,
           "Pages that their first holder did not give (it failed, or had evicted them just then) "
           "and that were read from another one in the same call.",
           {},
           {Of(&Counters::read_elsewhere)}},
          {"peercache_replica_bytes",
           kGauge,
           "Memory of this node's copies of other nodes' pages: for its own engines (private), or "
           "in the pool and with records in the directory (promoted).",
           {"kind"},
           {Of([](const Scrape& s) { return s.replicas.used_bytes; }, {"private"}),
            Of([](const Scrape& s) { return s.pool.replica_bytes; }, {"promoted"})}},
          {"peercache_replica_pages",
           kGauge,
           "This node's copies of other nodes' pages.",
           {"kind"},
           {Of([](const Scrape& s) { return s.replicas.pages; }, {"private"}),
            Of([](const Scrape& s) { return s.pool.replicas; }, {"promoted"})}},
          {"peercache_replica_capacity_bytes",
           kGauge,
           "Memory set aside for private copies; 0 when there are none.",
           {},
           {Of([](const Scrape& s) { return s.replicas.capacity_bytes; })}},
      }};
}

MetricSection WriteMetrics() {
  return {
      "Writes",
      "Pages that engines set. Every page is stored (and visible to every reader) or refused with "
      "a reason.",
      {
          {"peercache_write_requests_total",
           kCounter,
           "Pages that engines asked to store.",
           {},
           {Of(&Counters::write_requests)}},
          {"peercache_write_stored_total",
           kCounter,
           "Pages stored and visible to every reader.",
           {},
           {Of(&Counters::write_stored)}},
          {"peercache_write_duplicates_total",
           kCounter,
           "Pages to store that were here already.",
           {},
           {Of(&Counters::write_duplicates)},
           "How much of what engines write is here already?",
           "sum(rate(peercache_write_duplicates_total[5m])) / "
           "sum(rate(peercache_write_requests_total[5m]))"},
          {"peercache_write_refused_total",
           kCounter,
           "Pages not stored, by reason: no slot came free in time (full), too long for the pool "
           "or "
           "of another length than the page under this key (size), the engine's memory could not "
           "be "
           "read (engine_memory), a shard did not acknowledge the record (unacknowledged), this "
           "node knows no member yet (not_joined), the engine waited no longer and took its memory "
           "back (given_up), the cache is bypassed (bypass).",
           {"reason"},
           {Of(&Counters::refused_full, {"full"}), Of(&Counters::refused_size, {"size"}),
            Of(&Counters::refused_copy, {"engine_memory"}),
            Of(&Counters::refused_unacknowledged, {"unacknowledged"}),
            Of(&Counters::refused_no_view, {"not_joined"}),
            Of(&Counters::refused_given_up, {"given_up"}),
            Of(&Counters::refused_bypass, {"bypass"})},
           "Why are sets refused?",
           "sum by (reason) (rate(peercache_write_refused_total[5m])) > 0"},
          {"peercache_write_bytes_total",
           kCounter,
           "Bytes copied from engines.",
           {},
           {Of(&Counters::bytes_written)}},
          {"peercache_write_stalls_total",
           kCounter,
           "Pages whose set was held up for want of room: slowed to the pace at which slots come "
           "back (paced), or without a slot (no_slot).",
           {"how"},
           {Of([](const Scrape& s) { return s.room.paced; }, {"paced"}),
            Of([](const Scrape& s) { return s.room.waits; }, {"no_slot"})}},
          {"peercache_write_stall_seconds_total",
           kCounter,
           "Time that sets waited for room, of all of them together.",
           {},
           {Of([](const Scrape& s) { return ToSeconds(s.room.stalled); })},
           "Are sets held up because the pool is too small for their rate? (seconds per second)",
           "rate(peercache_write_stall_seconds_total[5m]) > 0"},
      }};
}

MetricSection LatencyMetrics() {
  return {
      "Latency",
      "Once per call of an engine, not per page. A stage that a call did not need is not observed, "
      "so the count of a stage is the number of calls that went through it.",
      {
          {"peercache_op_latency_seconds",
           kHistogram,
           "Time an engine's call took in the node.",
           {"op"},
           {Of(&Counters::op_set, {"set"}), Of(&Counters::op_get, {"get"}),
            Of(&Counters::op_exists, {"exists"}), Of(&Counters::op_presence, {"presence"})},
           "How long do gets take?",
           "histogram_quantile(0.99, sum by (le) "
           "(rate(peercache_op_latency_seconds_bucket{op=\"get\"}[5m])))"},
          {"peercache_stage_latency_seconds",
           kHistogram,
           "Time that one call spent in one stage: finding and waiting for room (reserve), copying "
           "between the engine and memory of this node (copy), telling the directory (publish), "
           "asking it (lookup), reading from other nodes (read), waiting for and copying what "
           "another call was bringing (share).",
           {"op", "stage"},
           {Of(&Counters::set_reserve, {"set", "reserve"}),
            Of(&Counters::set_copy, {"set", "copy"}),
            Of(&Counters::set_publish, {"set", "publish"}),
            Of(&Counters::get_copy, {"get", "copy"}), Of(&Counters::get_lookup, {"get", "lookup"}),
            Of(&Counters::get_read, {"get", "read"}), Of(&Counters::get_share, {"get", "share"}),
            Of(&Counters::exists_lookup, {"exists", "lookup"}),
            Of(&Counters::presence_lookup, {"presence", "lookup"})},
           "Which stage makes calls slow?",
           "sum by (op, stage) (rate(peercache_stage_latency_seconds_sum[5m])) / "
           "on (op) group_left sum by (op) (rate(peercache_op_latency_seconds_sum[5m]))"},
      }};
}

MetricSection EngineMetrics() {
  return {
      "Engines",
      "",
      {
          {"peercache_engines",
           kGauge,
           "Engines attached.",
           {},
           {Of([](const Scrape& s) { return s.engines; })},
           "Are all SGLang ranks of the machine attached?",
           "peercache_engines"},
          {"peercache_engines_limit",
           kGauge,
           "Engines that may attach (max-engines).",
           {},
           {Of([](const Scrape& s) { return s.max_engines; })}},
          {"peercache_engine_connections",
           kGauge,
           "Connections of attached engines.",
           {},
           {Of([](const Scrape& s) { return s.engine_connections; })}},
          {"peercache_engine_shared_bytes",
           kGauge,
           "Memory that engines share with this node.",
           {},
           {Of([](const Scrape& s) { return s.engine_shared_bytes; })}},
          {"peercache_engine_prefill_tokens_per_second",
           kGauge,
           "Tokens that an engine computes in a second, on average over those that report it; 0: "
           "none. What takes longer to bring than to compute is not waited for.",
           {},
           {Of([](const Scrape& s) {
             return s.prefill_told == 0 ? 0 : s.prefill_sum / s.prefill_told;
           })}},
          {"peercache_engine_bad_requests_total",
           kCounter,
           "Requests of engines that were refused as malformed or not allowed.",
           {},
           {Of(&Counters::engine_bad_requests)}},
          {"peercache_engine_refused_total",
           kCounter,
           "Connections of engines that were refused: user not in socket-uids (user), no Attach in "
           "time (slow_attach), oldest of too many that had not attached (crowded_out), too many "
           "engines or connections (limit); and calls of engines that got no turn in time (busy).",
           {"reason"},
           {Of(&Counters::engine_refused_user, {"user"}),
            Of(&Counters::engine_refused_slow, {"slow_attach"}),
            Of(&Counters::engine_refused_crowded, {"crowded_out"}),
            Of(&Counters::engine_refused_limit, {"limit"}),
            Of(&Counters::engine_refused_busy, {"busy"})},
           "Are engines or their calls turned away, and why?",
           "sum by (reason) (increase(peercache_engine_refused_total[15m])) > 0"},
          {"peercache_engine_calls_waited_total",
           kCounter,
           "Calls that waited for another call of their engine to end (engine-concurrency).",
           {},
           {Of(&Counters::engine_calls_waited)}},
      }};
}

}  // namespace peercache
