// What a node shows of itself: /v1/status as JSON, and the gauges of /metrics. Pure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "directory/shard.h"
#include "membership/view.h"
#include "node/counters.h"
#include "node/engine_server.h"
#include "node/member_agent.h"
#include "node/metrics.h"
#include "node/room.h"
#include "pool/pool.h"
#include "transport/tcp/server.h"

namespace peercache {

struct NodeStatus {
  Member self;
  std::string group;
  Status ready;
  Duration uptime{};
  std::shared_ptr<const View> view;
  MemberAgent::Hosts hosts;
  PoolStats pool;
  RoomStats room;
  size_t reserve_bytes = 0;
  ShardStats shard;
  std::vector<EngineInfo> engines;
  std::vector<uint64_t> unhealthy;
};
std::string ToJson(const NodeStatus& status, const Counters& counters);

struct GaugeInput {
  PoolStats pool;
  RoomStats room;
  size_t reserve_bytes = 0;
  ShardStats shard;
  std::shared_ptr<const View> view;
  TcpServerStats server;
  bool ready = false;
  Duration uptime{};
  size_t engines = 0;
  size_t breakers_open = 0;
  uint64_t breaker_trips = 0;
};
std::vector<Sample> GaugeSamples(const GaugeInput& input);

}  // namespace peercache
