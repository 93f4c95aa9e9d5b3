#include "node/report/metric_families.h"

#include "node/report/metric_series.h"

namespace peercache {

const std::vector<MetricSection>& MetricSections() {
  static const std::vector<MetricSection> sections = {
      LookupMetrics(), ReadMetrics(),   WriteMetrics(),   LatencyMetrics(), EngineMetrics(),
      TenantMetrics(), PoolMetrics(),   RestartMetrics(), DiskMetrics(),    DirectoryMetrics(),
      ClearMetrics(),  MemberMetrics(), DrainMetrics(),   PeerMetrics(),    TlsMetrics(),
      FrameMetrics(),  HttpMetrics(),   FabricMetrics(),  NumaMetrics(),    ProcessMetrics(),
  };
  return sections;
}

const std::vector<FormerMetric>& FormerMetrics() {
  static const std::vector<FormerMetric> former = {
      {"peercache_read_requests_total", "peercache_read_requests_total"},
      {"peercache_read_hits_total", "sum without (tier) (peercache_read_hits_total)"},
      {"peercache_read_misses_total", "sum without (reason) (peercache_read_misses_total)"},
      {"peercache_read_local_hits_total", "peercache_read_hits_total{tier=\"local\"}"},
      {"peercache_read_remote_hits_total",
       "sum without (tier) (peercache_read_hits_total{tier=~\"remote|shared\"})"},
      {"peercache_read_failures_total",
       "sum without (reason) (peercache_read_misses_total{reason!=\"absent\"})"},
      {"peercache_read_hit_rate",
       "sum without (tier) (rate(peercache_delivered_pages_total[5m])) / "
       "sum without (op) (rate(peercache_lookup_pages_total[5m]))"},
      {"peercache_bytes_read_total", "sum without (tier) (peercache_read_bytes_total)"},
      {"peercache_bytes_written_total", "peercache_write_bytes_total"},
      {"peercache_write_requests_total", "peercache_write_requests_total"},
      {"peercache_exists_requests_total", "peercache_exists_requests_total"},
      {"peercache_exists_pages_found_total", "peercache_exists_pages_found_total"},
      {"peercache_evictions_total",
       "sum without (reason) (peercache_evictions_total{reason!=\"replica\"})"},
      {"peercache_directory_republishes_total", "peercache_directory_republishes_total"},
      {"peercache_pool_bytes_used", "peercache_pool_bytes{state=\"used\"}"},
      {"peercache_pool_capacity_bytes", "peercache_pool_capacity_bytes"},
      {"peercache_pool_keys", "peercache_pool_pages"},
      {"peercache_members", "peercache_members"},
      {"peercache_uptime_seconds", "peercache_uptime_seconds"},
      {"peercache_op_latency_seconds{op,quantile}",
       "histogram_quantile(0.99, sum by (op, le) "
       "(rate(peercache_op_latency_seconds_bucket[5m])))"},
  };
  return former;
}

}  // namespace peercache
