// RDMA: rails, links to peers and queue pairs for peers.
#include "node/report/metric_series.h"

namespace peercache {
namespace {

Series WaitsSeries(rdma::WaitsFor what) {
  return EachRail([what](const RailInfo& r) { return r.waits.what == what; },
                  {rdma::WaitsForName(what)});
}

}  // namespace

MetricSection FabricMetrics() {
  return {
      "RDMA",
      "Nothing here without rails; `/v1/status` has the reason why there are none.",
      {
          {"peercache_rail_up",
           kGauge,
           "1 when the rail's port is active and has its address.",
           {"rail"},
           {EachRail([](const RailInfo& r) { return r.up; })},
           "Which rails are down?",
           "peercache_rail_up == 0"},
          {"peercache_rail_waits",
           kGauge,
           "1 for what a rail that is not up waits for: its port to become active, an address of "
           "its interface (a GID) or, on InfiniBand, a LID, or its device; the remedy is in "
           "`/v1/status`, `transport.rails[].why`.",
           {"rail", "for"},
           {WaitsSeries(rdma::WaitsFor::kPort), WaitsSeries(rdma::WaitsFor::kAddress),
            WaitsSeries(rdma::WaitsFor::kDevice)},
           "What do rails wait for?",
           "peercache_rail_waits == 1"},
          {"peercache_rail_numa_node",
           kGauge,
           "NUMA node of the rail's device; -1: not known.",
           {"rail"},
           {EachRail([](const RailInfo& r) { return r.numa_node; })}},
          {"peercache_rail_read_bytes_total",
           kCounter,
           "Bytes that this node has read from peers over the rail, headers of slots included.",
           {"rail"},
           {EachRail([](const RailInfo& r) { return static_cast<double>(r.stats.bytes); })},
           "Is the traffic spread over all rails?",
           "rate(peercache_rail_read_bytes_total[1m])"},
          {"peercache_rail_reads_total",
           kCounter,
           "READs that have completed over the rail.",
           {"rail"},
           {EachRail([](const RailInfo& r) { return static_cast<double>(r.stats.reads); })}},
          {"peercache_rail_queue_pair_failures_total",
           kCounter,
           "Queue pairs over the rail that broke or made no progress; what they had under way was "
           "read over other rails, or over TCP.",
           {"rail"},
           {EachRail([](const RailInfo& r) { return static_cast<double>(r.stats.failures); })},
           "Does a rail lose connections?",
           "rate(peercache_rail_queue_pair_failures_total[5m]) > 0"},
          {"peercache_rail_downs_total",
           kCounter,
           "Times that the rail's port went down, or lost its address, or its device failed.",
           {"rail"},
           {EachRail([](const RailInfo& r) { return static_cast<double>(r.stats.downs); })}},
          {"peercache_rail_device_failures_total",
           kCounter,
           "Times that the rail's device failed or was taken away; each time it is opened again "
           "when it is back, and what was registered is registered again.",
           {"rail"},
           {EachRail(
               [](const RailInfo& r) { return static_cast<double>(r.stats.device_failures); })}},
          {"peercache_rail_address_changes_total",
           kCounter,
           "Times that the rail took another address than it had; its queue pairs were made again.",
           {"rail"},
           {EachRail(
               [](const RailInfo& r) { return static_cast<double>(r.stats.address_changes); })}},
          {"peercache_rdma_links",
           kGauge,
           "Links to peers that are open for reading.",
           {},
           {Of([](const Scrape& s) { return s.fabric.links.links; })}},
          {"peercache_rdma_link_attempts_total",
           kCounter,
           "Links to peers by what became of them: made, failed (the peer is read over TCP for a "
           "while), or refused because there are rdma-max-queues queue pairs.",
           {"result"},
           {Of([](const Scrape& s) { return s.fabric.links.made; }, {"made"}),
            Of([](const Scrape& s) { return s.fabric.links.failed; }, {"failed"}),
            Of([](const Scrape& s) { return s.fabric.links.refused; }, {"refused"})}},
          {"peercache_rdma_queue_pairs",
           kGauge,
           "Queue pairs: on which this node reads, and which it serves readers with.",
           {"side"},
           {Of([](const Scrape& s) { return s.fabric.links.queues; }, {"reading"}),
            Of([](const Scrape& s) { return s.fabric.acceptor.queues; }, {"serving"})}},
          {"peercache_rdma_refused_readers_total",
           kCounter,
           "Readers that were refused because rdma-max-queues queue pairs are taken; they read "
           "over "
           "TCP.",
           {},
           {Of([](const Scrape& s) { return s.fabric.acceptor.refused; })}},
          {"peercache_rdma_class_mismatches_total",
           kCounter,
           "Links, at either end, of which the peer has another rdma-traffic-class or "
           "rdma-service-level; which one is in `/v1/status`, `transport.class_mismatch`.",
           {},
           {Of([](const Scrape& s) { return s.fabric.classes.links; })},
           "Which nodes travel in another class than their peers?",
           "increase(peercache_rdma_class_mismatches_total[1h]) > 0"},
      }};
}

}  // namespace peercache
