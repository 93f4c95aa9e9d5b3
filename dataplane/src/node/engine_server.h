// EngineServer: the Unix socket where engines attach. One thread per connection carries out that
// connection's requests one after another; an engine that wants several at once opens several
// connections of one session.
//
// Bounds: sessions (engines), connections and regions per session. Malformed input is answered with
// an error that says what is wrong; when the framing itself is broken the connection is closed.
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

namespace peercache {

struct EngineServerOptions {
  std::string node_id;
  uint32_t max_engines = 64;
};

struct EngineInfo {
  std::string name, version;
  uint32_t connections = 0;
  uint32_t regions = 0;
  uint64_t region_bytes = 0;
};

class EngineServer {
 public:
  static constexpr uint32_t kMaxConnectionsPerEngine = 64;
  static constexpr uint32_t kMaxRegionsPerEngine = 256;

  // `wait_joined` is called before an engine's first attach; `clear` drops all pages of a tag on
  // all nodes, or says which it did not reach.
  EngineServer(UniqueFd listener, EngineServerOptions options, Pages* pages, Metrics* metrics,
               Counters* counters, std::function<void()> wait_joined,
               std::function<Status(uint64_t tag)> clear);
  ~EngineServer();

  std::vector<EngineInfo> engines() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
