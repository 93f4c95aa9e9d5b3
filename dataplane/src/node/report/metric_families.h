// The table of all metrics: names, types, labels, help texts, the questions they answer, and where
// each value comes from. /metrics (metrics.cc), docs/metrics.md (metrics_markdown.cc) and their
// tests all walk this one table, so a metric that is added here is exported and documented.
//
// Conventions, which metric_families_test.cc checks: prefix peercache_ (process_ for what any
// Prometheus client calls so), lower case, base units (seconds, bytes), _total for counters and
// nothing else, and labels whose values are all listed here, or are this node's rails, tenants or
// drives, of which there are few: no label is ever the name of a peer, an engine or a key.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "directory/shard.h"
#include "membership/view.h"
#include "node/clear/clears.h"
#include "node/count/counters.h"
#include "node/disk/disk_pages.h"
#include "node/owner/room.h"
#include "node/peer/peers.h"
#include "node/rails/fabric.h"
#include "node/report/http.h"
#include "node/report/process_stats.h"
#include "node/tenant/tenants.h"
#include "pool/numa_home.h"
#include "pool/pool.h"
#include "transport/tcp/server.h"
#include "transport/tcp/tls.h"
#include "wire/frame_memory.h"

namespace peercache {

// Everything that one scrape shows, read at its time.
struct Scrape {
  const Counters* counters = nullptr;
  PoolStats pool, replicas;
  Adoption adoption;
  std::optional<DiskReport> disk;  // empty: without
  RoomStats room;
  size_t reserve_bytes = 0;
  ShardStats shard;
  uint64_t repair_backlog = 0;
  ClearsStats clears;
  std::shared_ptr<const View> view;  // null before the first answer of a discovery host
  Peers::Breakers breakers;
  TcpServerStats server;
  FrameMemoryStats frames;
  std::optional<Tls::Stats> tls;  // empty: off
  HttpStats http;
  FabricStats fabric;  // without rails: nothing
  size_t discovery_hosts = 0, discovery_answering = 0;
  bool ready = false;
  bool bypassed = false;
  Duration uptime{};
  std::vector<TenantInfo> tenants;  // 65 at most
  size_t unserved_tenants = 0;
  size_t engines = 0, engine_connections = 0;
  uint64_t prefill_told = 0, prefill_sum = 0;  // engines that say how fast they compute, and that
  uint64_t engine_shared_bytes = 0;
  size_t max_engines = 0, max_records = 0, max_peer_connections = 0;
  ProcessStats process;
  NumaStats numa;
};

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };

// One line of a family: the values of its labels, and what to show.
struct Series {
  std::vector<std::string> values;
  std::function<double(const Scrape&)> number;
  LatencyHistogram Counters::*histogram = nullptr;  // of histograms, instead of `number`
  // The value of an info metric's one label, when it is not known beforehand; `values` then says
  // what it is, for the documentation.
  std::function<std::string(const Scrape&)> named;
  // One line for each rail, whose name is the value of the first label, instead of `number`.
  std::function<double(const RailInfo&)> each_rail;
  // The same of each tenant.
  std::function<double(const TenantInfo&)> each_tenant;
  // The same of each folder of disk-path.
  std::function<double(const disk::DeviceHealth&)> each_drive;
  // Of histograms.
  std::function<const LatencyCounts&(const disk::DeviceHealth&)> each_drive_times;
};

struct MetricFamily {
  const char* name;
  MetricType type;
  const char* help;  // one sentence or two, also of the exposition
  std::vector<const char*> labels;
  std::vector<Series> series;
  const char* question = "";  // of somebody on call; for the documentation, as is the next
  const char* query = "";     // PromQL that answers it
};

struct MetricSection {
  const char* title;
  const char* about;
  std::vector<MetricFamily> families;
};

const std::vector<MetricSection>& MetricSections();

// A name of the original PeerCache and what to ask instead.
struct FormerMetric {
  const char* name;
  const char* now;  // PromQL
};
const std::vector<FormerMetric>& FormerMetrics();

}  // namespace peercache
