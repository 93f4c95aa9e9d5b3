// The HTTP port: whom it serves, and whom it has dropped.
#include "node/report/metric_series.h"

namespace peercache {

MetricSection HttpMetrics() {
  return {
      "HTTP port",
      "The port of these metrics, of probes and of `/v1/status`.",
      {
          {"peercache_http_connections",
           kGauge,
           "Connections to the HTTP port, the one of this scrape included.",
           {},
           {Of([](const Scrape& s) { return s.http.connections; })}},
          {"peercache_http_dropped_total",
           kCounter,
           "Connections to the HTTP port that were dropped: oldest of the source that had most, "
           "when there were too many (crowded_out), or still there after 10 s (too_slow).",
           {"reason"},
           {Of([](const Scrape& s) { return s.http.crowded_out; }, {"crowded_out"}),
            Of([](const Scrape& s) { return s.http.too_slow; }, {"too_slow"})},
           "Does a client flood the HTTP port?",
           "rate(peercache_http_dropped_total{reason=\"crowded_out\"}[5m]) > 0"},
      }};
}

}  // namespace peercache
