#include "node/config/config_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/size.h"

namespace peercache {
namespace {

const char* Switch(bool on) { return on ? "on" : "off"; }

std::string Percent(double share) { return fmt::format("{}%", std::lround(100 * share)); }

std::string NumaOption(int node) {
  if (node == kNumaAuto) return "auto";
  return node == kNumaOff ? "off" : std::to_string(node);
}

}  // namespace

nlohmann::json ConfigJson(const NodeConfig& c) {
  const rdma::LinkOptions& link = c.rdma_link;
  return {{"node-id", c.node_id},
          {"cluster", c.cluster},
          {"group", c.group},
          {"discovery-addr", c.discovery_addr},
          {"bind-addr", c.bind_addr},
          {"advertise-addr", c.advertise_addr},
          {"peer-port", c.peer_port},
          {"http-port", c.http_port},
          {"http", Switch(c.http)},
          {"socket", c.socket.empty() ? "none" : c.socket},
          {"socket-mode", fmt::format("{:04o}", c.socket_mode)},
          {"socket-uids", c.socket_uids.ToString()},
          {"tenants-dir", c.tenants_dir},
          {"tenant", c.tenant},
          {"tenant-secret-file", c.tenant_secret_file},
          {"pool-size", FormatSize(c.pool_bytes)},
          {"huge-pages", HugePagesName(c.huge_pages)},
          {"pool-file", c.pool_file},
          {"pool-file-view", c.pool_file_view},
          {"disk-path", fmt::format("{}", fmt::join(c.disk_paths, ","))},
          {"disk-size", c.disk_bytes == 0 ? "" : FormatSize(c.disk_bytes)},
          {"disk-write-budget", c.disk_write_budget},
          {"disk-io", disk::IoKindName(c.disk_io)},
          {"eviction", EvictionPolicyName(c.eviction)},
          {"prefault", Switch(c.prefault)},
          {"numa-node", NumaOption(c.numa_node)},
          {"promotion-percent", c.promotion_percent},
          {"checksums", ChecksumPolicyName(c.checksums)},
          {"high-watermark", Percent(c.watermarks.high)},
          {"low-watermark", Percent(c.watermarks.low)},
          {"drain-budget", FormatSize(c.drain_budget)},
          {"transport", c.transport},
          {"tcp-congestion", c.tcp_congestion},
          {"map-pools", Switch(c.map_pools)},
          {"tenant-metrics", Switch(c.tenant_metrics)},
          {"core-files", Switch(c.core_files)},
          {"bypass-file", c.bypass_file},
          {"device-name", c.device_name},
          {"rdma-gid", c.rdma_gid},
          {"rdma-traffic-class", link.traffic_class},
          {"rdma-service-level", link.service_level},
          {"rdma-timeout", link.timeout},
          {"rdma-retries", link.retries},
          {"rdma-pkey-index", link.pkey_index},
          {"rdma-mtu", link.mtu},
          {"rdma-odp", Switch(link.on_demand_paging)},
          {"rdma-relaxed-ordering", Switch(link.relaxed_ordering)},
          {"rdma-ece", Switch(link.ece)},
          {"rdma-spin-us", c.rdma_spin.count()},
          {"rdma-queues",
           link.queues == 0 ? nlohmann::ordered_json("auto") : nlohmann::ordered_json(link.queues)},
          {"rdma-max-queues", c.rdma_max_queues},
          {"directory-lookups", c.directory_lookups},
          {"lease-ms", c.lease.count()},
          {"dir-cache-ttl-ms", c.dir_cache_ttl.count()},
          {"peer-timeout-ms", c.peer_timeout.count()},
          {"heartbeat-ms", c.heartbeat.count()},
          {"member-ttl-ms", c.member_ttl.count()},
          {"vnodes", c.vnodes},
          {"max-engines", c.max_engines},
          {"engine-concurrency", c.engine_concurrency},
          {"max-engine-memory", c.max_engine_memory == 0 ? "" : FormatSize(c.max_engine_memory)},
          {"max-tenant-memory", c.max_tenant_memory == 0 ? "" : FormatSize(c.max_tenant_memory)},
          {"max-directory-records", c.max_directory_records},
          {"io-threads", c.io_threads},
          {"copy-threads", c.copy_threads},
          {"auth-token-file", c.auth_token_file},
          {"auth-spread-ms", c.auth_spread.count()},
          {"insecure-peers", Switch(c.insecure_peers)},
          {"tls-cert-file", c.tls_cert_file},
          {"tls-key-file", c.tls_key_file},
          {"tls-ca-file", c.tls_ca_file},
          {"tls-peer-name", c.tls_peer_name},
          {"log-level", c.log_level}};
}

}  // namespace peercache
