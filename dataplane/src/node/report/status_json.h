// What a node shows of itself in /v1/status, as JSON. Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "directory/shard.h"
#include "membership/fleet.h"
#include "membership/view.h"
#include "node/config/config.h"
#include "node/count/counters.h"
#include "node/disk/disk_pages.h"
#include "node/engine/session_list.h"
#include "node/owner/room.h"
#include "node/peer/member_agent.h"
#include "node/rails/fabric.h"
#include "node/report/events.h"
#include "node/report/http.h"
#include "node/tenant/tenants.h"
#include "pool/numa_home.h"
#include "pool/pool.h"
#include "transport/tcp/tls.h"

namespace peercache {

struct NodeStatus {
  Member self;
  std::string group;
  Status ready;
  bool bypassed = false;
  Duration uptime{};
  std::shared_ptr<const View> view;
  MemberAgent::Hosts hosts;
  std::vector<MemberReport> reports;  // sorted by id; empty: this node hosts no discovery
  bool warming = false;               // members may be missing among them
  PoolStats pool;
  Adoption adoption;
  std::optional<DiskReport> disk;  // empty: without
  RoomStats room;
  size_t reserve_bytes = 0;
  ShardStats shard;
  std::vector<EngineInfo> engines;
  std::vector<TenantInfo> tenants;
  size_t unserved_tenants = 0;  // folders of tenants-dir without a socket
  std::vector<uint64_t> unhealthy;
  std::vector<SlowPlace> slow;
  std::optional<Tls::Stats> tls;  // empty: off
  std::string transport;          // what pages travel by, and why
  std::string tcp_congestion;     // of pages that are sent over TCP
  FabricStats fabric;
  std::vector<double> line_rates;  // of the fabric's rails, as of LineRate
  NumaStats numa;
  std::optional<Activity> activity;  // lately
  std::vector<PastEvent> events;     // the newest first
};
// Strangers are told neither what engines run here nor where members are reached, nor the
// configuration. Of texts and paths they are told what WithoutPlaces leaves.
std::string ToJson(const NodeStatus& status, const NodeConfig& config, const Counters& counters,
                   Asker asker);

}  // namespace peercache
