// Http: the node's port for people, probes and Prometheus: /healthz /readyz /metrics /v1/status.
// Read-only. Each path is a function that the node provides; none is called before Serve.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace peercache {

struct HttpHandlers {
  std::function<Status()> healthy;       // not ok: 503 with the message
  std::function<Status()> ready;         // not ok: 503 with the message
  std::function<std::string()> metrics;  // Prometheus text
  std::function<std::string()> status;   // JSON
};

class Http {
 public:
  // Takes the port, so that it can be announced; 0 takes a free one. Requests wait for Serve.
  static Result<std::unique_ptr<Http>> Bind(const std::string& host, uint16_t port,
                                            HttpHandlers handlers);
  ~Http();
  void Serve();
  uint16_t port() const;

 private:
  class Impl;
  explicit Http(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
