// Http: the node's port for people, probes and Prometheus: the dashboard at /, and /healthz /readyz
// /metrics /v1/status /v1/history. Read-only. Each path but the dashboard's files is a function
// that the node provides; none is called before Serve.
//
// Anybody can connect, so nobody can hold much: a connection is for one request, ends 10 s after
// it began whatever is sent or read, and goes before that when there are too many. A new one always
// gets in, so that probes are answered at once (docs/reference/http.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace peercache {

// Who asks (node/report/asker.h).
enum class Asker : uint8_t { kOwnMachine, kStranger };

struct HttpHandlers {
  // Quick: called between the reads and writes of all connections. Not ok: 503 with the message.
  std::function<Status()> healthy;
  std::function<Status()> ready;
  // May take their time, on a thread of their own; one is called at a time, and all who asked
  // before share what it says.
  std::function<std::string()> metrics;      // Prometheus text
  std::function<std::string(Asker)> status;  // JSON
  std::function<std::string()> history;      // JSON
};

struct HttpStats {
  uint64_t connections = 0;
  // Dropped: to make room for others, or because their time was over.
  uint64_t crowded_out = 0, too_slow = 0;
};

class Http {
 public:
  // Takes the port, so that it can be announced; 0 takes a free one. Requests wait for Serve.
  static Result<std::unique_ptr<Http>> Bind(const std::string& host, uint16_t port,
                                            HttpHandlers handlers);
  ~Http();
  Status Serve();
  uint16_t port() const;
  HttpStats stats() const;

 private:
  class Impl;
  explicit Http(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
