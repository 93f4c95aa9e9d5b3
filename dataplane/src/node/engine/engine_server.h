// EngineServer: a Unix socket where the engines of one tenant attach. One thread per connection
// carries out that connection's requests one after another; an engine that wants several at once
// opens several connections of one session. What engines name, keys and tags, is bound to the
// tenant (tenant_key.h) before anything else sees it.
//
// Bounds: sessions (engines); threads, so connections, of each tenant; connections, calls at work,
// regions and shared memory per session; the memory of large requests of all together
// (wire/frame_memory.h), which end with their calls. A connection that has not attached may send
// one small frame, must do so in time, and gives way when too many like it come; who may attach is
// decided by the user of the process at the other end. Malformed input is answered with an error
// that says what is wrong; when the framing itself is broken the connection is closed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "node/count/counters.h"
#include "node/engine/pages.h"
#include "node/engine/session_list.h"
#include "node/engine/uid_list.h"
#include "node/tenant/tenants.h"
#include "wire/stream.h"

namespace peercache {

struct EngineServerOptions {
  std::string node_id;
  uint32_t max_engines = 64;  // of all tenants, for the number of connections
  UidList uids;
  uint64_t max_engine_memory = UINT64_MAX;
  uint32_t engine_concurrency = 16;               // calls of one engine carried out at once
  Duration attach_timeout = milliseconds(5'000);  // from the connect to a complete Attach
  uint32_t max_unattached = 256;                  // connections, each with its thread
  FrameMemory* memory = nullptr;                  // of large requests; null: without a limit
};

// What carries out the requests.
struct EngineServices {
  Tenants* tenants = nullptr;
  Pages* pages = nullptr;
  Fabric* fabric = nullptr;  // null without RDMA
  Counters* counters = nullptr;
  std::function<void()> wait_joined;  // called before an engine's first attach
  // Drops all pages of a tag on all nodes, or says which it did not reach.
  std::function<Status(uint64_t tag)> clear;
};

class EngineServer {
 public:
  static constexpr uint32_t kMaxConnectionsPerEngine = 64;
  static constexpr uint32_t kMaxRegionsPerEngine = 256;

  // kResourceExhausted: there is no thread for it.
  static Result<std::unique_ptr<EngineServer>> Serve(UniqueFd listener, EngineServerOptions options,
                                                     EngineServices services,
                                                     std::shared_ptr<Tenant> tenant);
  ~EngineServer();

  std::vector<EngineInfo> engines() const;
  // Takes no further connection; those that are there go on.
  void StopListening();
  // No connection is left.
  bool idle();

 private:
  class Impl;
  explicit EngineServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
