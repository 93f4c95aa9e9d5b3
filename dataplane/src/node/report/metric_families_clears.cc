#include "node/report/metric_series.h"

namespace peercache {

MetricSection ClearMetrics() {
  return {
      "Clears",
      "Clears that engines have made anywhere in the cluster, as far as this node knows.",
      {
          {"peercache_clears_total",
           kCounter,
           "Clears of this node's engines that were carried out.",
           {},
           {Of(&Counters::clears)}},
          {"peercache_clears_unheard_total",
           kCounter,
           "Of these, clears that some member did not know, still had pages in use after, or "
           "had "
           "not recorded on its drives.",
           {},
           {Of(&Counters::clears_unheard)},
           "Did a clear return false?",
           "increase(peercache_clears_unheard_total[1h]) > 0"},
          {"peercache_clears_caught_up_total",
           kCounter,
           "Times that this node dropped pages for clears that were made while it was away.",
           {},
           {Of(&Counters::clears_caught_up)}},
          {"peercache_clears_known_tags",
           kGauge,
           "Tags whose last clear this node remembers; at most 500.",
           {},
           {Of([](const Scrape& s) { return s.clears.tags; })}},
          {"peercache_clears_forgotten",
           kGauge,
           "Groups of tags, about one for each tenant, of which some clears are forgotten: a "
           "member "
           "that has missed one of these drops all its pages of the group.",
           {},
           {Of([](const Scrape& s) { return s.clears.groups; })}},
          {"peercache_clears_current",
           kGauge,
           "1 when this node cannot have missed a clear; else it gives no page until it has asked.",
           {},
           {Of([](const Scrape& s) { return s.clears.current; })},
           "Which nodes answer nothing but misses, because no member answers them?",
           "peercache_clears_current == 0"},
          {"peercache_clears_members_behind",
           kGauge,
           "Members that have not reported that they know every clear this node knows: their pages "
           "are "
           "not read.",
           {},
           {Of([](const Scrape& s) { return s.clears.unvouched; })},
           "Which members are not read since the last clear?",
           "peercache_clears_members_behind > 0"},
      }};
}

}  // namespace peercache
