// Where threads and pool are on the machine.
#include "node/report/metric_series.h"

namespace peercache {

MetricSection NumaMetrics() {
  return {
      "NUMA",
      "/v1/status has the reason under numa.",
      {
          {"peercache_numa_node",
           kGauge,
           "NUMA node where threads and pool belong, that of the rails; -1: none.",
           {},
           {Of([](const Scrape& s) { return s.numa.wish.node; })}},
          {"peercache_numa_cpus",
           kGauge,
           "CPUs of this NUMA node that the threads are kept on; 0: they are not.",
           {},
           {Of([](const Scrape& s) { return s.numa.cpus.size(); })},
           "Which nodes run far from their rails?",
           "peercache_numa_cpus == 0 and peercache_numa_node >= 0"},
          {"peercache_numa_pool_sampled_pages",
           kGauge,
           "A sample of at most 64 pages of memory of the pool, by where they are: on that NUMA "
           "node, elsewhere, or not taken yet (absent). Taken once, when all of the pool has been "
           "touched, where the kernel does not answer for pages. All 0 without a NUMA node, and "
           "where the place is unknown.",
           {"place"},
           {Of([](const Scrape& s) { return s.numa.pool.on_node; }, {"node"}),
            Of([](const Scrape& s) { return s.numa.pool.elsewhere; }, {"elsewhere"}),
            Of([](const Scrape& s) { return s.numa.pool.absent; }, {"absent"})},
           "Is part of the pool far from the rails?",
           "peercache_numa_pool_sampled_pages{place=\"elsewhere\"} > 0"},
          {"peercache_numa_memory_info",
           kGauge,
           "Always 1; the label shows how the pool's memory was placed.",
           {"placement"},
           {Info(
               "anywhere, bound, preferred or first touch",
               [](const Scrape& s) { return std::string(NumaMemoryName(s.numa.memory.memory)); })}},
      }};
}

}  // namespace peercache
