// EngineServer: the Unix socket where engines attach. One thread per connection carries out that
// connection's requests one after another; an engine that wants several at once opens several
// connections of one session.
//
// Bounds: sessions (engines); connections, calls at work, regions and shared memory per session. A
// connection that has not attached may send one small frame, must do so in time, and gives way when
// too many like it come; who may attach is decided by the user of the process at the other end.
// Malformed input is answered with an error that says what is wrong; when the framing itself is
// broken the connection is closed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "node/counters.h"
#include "node/metrics.h"
#include "node/pages.h"
#include "node/uid_list.h"
#include "wire/stream.h"

namespace peercache {

struct EngineServerOptions {
  std::string node_id;
  uint32_t max_engines = 64;
  UidList uids;
  uint64_t max_engine_memory = UINT64_MAX;
  uint32_t engine_concurrency = 16;               // calls of one engine carried out at once
  Duration attach_timeout = milliseconds(5'000);  // from the connect to a complete Attach
  uint32_t max_unattached = 256;                  // connections, each with its thread
};

struct EngineInfo {
  std::string name, version;
  PeerCredentials owner;
  uint32_t connections = 0;
  uint32_t regions = 0;
  uint64_t region_bytes = 0;
  uint64_t registered_bytes = 0;  // of these, what RDMA reaches
};

class EngineServer {
 public:
  static constexpr uint32_t kMaxConnectionsPerEngine = 64;
  static constexpr uint32_t kMaxRegionsPerEngine = 256;

  // `wait_joined` is called before an engine's first attach; `clear` drops all pages of a tag on
  // all nodes, or says which it did not reach.
  EngineServer(UniqueFd listener, EngineServerOptions options, Pages* pages, Fabric* fabric,
               Metrics* metrics, Counters* counters, std::function<void()> wait_joined,
               std::function<Status(uint64_t tag)> clear);
  ~EngineServer();

  std::vector<EngineInfo> engines() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
