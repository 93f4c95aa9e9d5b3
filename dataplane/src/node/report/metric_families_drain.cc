// The pages of nodes that leave: there, and at the peers that take them over.
#include "node/report/metric_series.h"

namespace peercache {

MetricSection DrainMetrics() {
  return {
      "Pages of nodes that leave",
      "A node that leaves has its most-read pages taken over by the members that stay, within "
      "`drain-budget`. What it counts itself ends with it; what the other members took stays.",
      {
          {"peercache_drain_pages_total",
           kCounter,
           "Pages of this node, which leaves: taken over by others (moved), not without something "
           "there going that is read as often (refused), not read or published in time (failed), "
           "and not offered, beyond budget or time (left).",
           {"result"},
           {Of(&Counters::drain_moved, {"moved"}), Of(&Counters::drain_refused, {"refused"}),
            Of(&Counters::drain_failed, {"failed"}), Of(&Counters::drain_left, {"left"})}},
          {"peercache_drain_bytes_total",
           kCounter,
           "Bytes of these pages.",
           {"result"},
           {Of(&Counters::drain_moved_bytes, {"moved"}),
            Of(&Counters::drain_refused_bytes, {"refused"}),
            Of(&Counters::drain_failed_bytes, {"failed"}),
            Of(&Counters::drain_left_bytes, {"left"})}},
          {"peercache_takeover_pages_total",
           kCounter,
           "Pages that leaving nodes have offered to this one: taken over, without room for them "
           "(no_room), or not read or published (failed).",
           {"result"},
           {Of(&Counters::taken, {"taken"}), Of(&Counters::not_taken_room, {"no_room"}),
            Of(&Counters::not_taken_failed, {"failed"})},
           "Have pages survived the rollout?",
           "sum by (result) (increase(peercache_takeover_pages_total[1h]))"},
          {"peercache_takeover_bytes_total",
           kCounter,
           "Bytes of the pages that were taken over.",
           {},
           {Of(&Counters::taken_bytes)}},
      }};
}

}  // namespace peercache
