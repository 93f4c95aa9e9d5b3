// What this node has of the process before it.
#include "node/report/metric_series.h"

namespace peercache {
namespace {

Series StartedAs(PoolStart start) {
  return Of([start](const Scrape& s) { return s.adoption.start == start ? 1 : 0; },
            {PoolStartName(start)});
}
Series NotAdopted(AdoptionDrop why) {
  return Of([why](const Scrape& s) { return s.adoption.dropped[static_cast<size_t>(why)]; },
            {AdoptionDropName(why)});
}

}  // namespace

MetricSection RestartMetrics() {
  return {
      "Pages of the process before",
      "With `pool-file` a node takes over the pages of its previous process when it starts. These "
      "figures are of that moment, and stay.",
      {
          {"peercache_pool_start",
           kGauge,
           "1 for how the pool began: in memory of this process alone (memory), in a file that is "
           "new (new), with the pages of the process before (adopted), or in a file that had to be "
           "emptied because that process was another node's or another configuration's "
           "(different), "
           "ended by a fault (crashed), or what it left is not whole (damaged).",
           {"start"},
           {StartedAs(PoolStart::kMemory), StartedAs(PoolStart::kNew),
            StartedAs(PoolStart::kAdopted), StartedAs(PoolStart::kDifferent),
            StartedAs(PoolStart::kCrashed), StartedAs(PoolStart::kDamaged)},
           "Which nodes have lost their pages in a restart?",
           "peercache_pool_start{start=~\"different|crashed|damaged\"} == 1"},
          {"peercache_adopted_pages",
           kGauge,
           "Pages of the process before that this one took over.",
           {},
           {Of([](const Scrape& s) { return s.adoption.pages; })}},
          {"peercache_adopted_bytes", kGauge, "Bytes of these pages.", {}, {Of([](const Scrape& s) {
             return s.adoption.bytes;
           })}},
          {"peercache_adoption_seconds",
           kGauge,
           "How long taking them over took.",
           {},
           {Of([](const Scrape& s) { return ToSeconds(s.adoption.took); })}},
          {"peercache_adoption_dropped_pages",
           kGauge,
           "Slots of the process before whose page was not taken over: it was being written "
           "(writing), evicted or cleared (withdrawn), its header is of no page (header), or "
           "another slot has the key (duplicate).",
           {"reason"},
           {NotAdopted(AdoptionDrop::kWriting), NotAdopted(AdoptionDrop::kWithdrawn),
            NotAdopted(AdoptionDrop::kHeader), NotAdopted(AdoptionDrop::kDuplicate)}},
      }};
}

}  // namespace peercache
