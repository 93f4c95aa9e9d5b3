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
#include "node/config.h"
#include "node/counters.h"
#include "node/engine_server.h"
#include "node/fabric.h"
#include "node/member_agent.h"
#include "node/numa_home.h"
#include "node/room.h"
#include "pool/pool.h"
#include "transport/tcp/tls.h"

namespace peercache {

struct NodeStatus {
  Member self;
  std::string group;
  Status ready;
  Duration uptime{};
  std::shared_ptr<const View> view;
  MemberAgent::Hosts hosts;
  std::vector<MemberReport> reports;  // sorted by id; empty: this node hosts no discovery
  bool warming = false;               // members may be missing among them
  PoolStats pool;
  RoomStats room;
  size_t reserve_bytes = 0;
  ShardStats shard;
  std::vector<EngineInfo> engines;
  std::vector<uint64_t> unhealthy;
  std::optional<Tls::Stats> tls;  // empty: off
  std::string transport;          // what pages travel by, and why
  std::string tcp_congestion;     // of pages that are sent over TCP
  FabricStats fabric;
  NumaStats numa;
};
std::string ToJson(const NodeStatus& status, const NodeConfig& config, const Counters& counters);

}  // namespace peercache
