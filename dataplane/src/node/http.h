// Http: the node's port for people, probes and Prometheus: /healthz /readyz /metrics /v1/status.
// Read-only. Each path is a function that the node provides.
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
  // Port 0 takes a free one.
  static Result<std::unique_ptr<Http>> Start(const std::string& host, uint16_t port,
                                             HttpHandlers handlers);
  ~Http();
  uint16_t port() const;

 private:
  class Impl;
  explicit Http(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
