// HttpGet: asks the HTTP port of a node. For the doctor and for tests: no names, no redirects, no
// TLS, one request for each connection.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace peercache {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// `address` is numeric. All of it takes `limit` at most. kUnavailable: nobody answers there;
// kCorrupt: what answers does not speak HTTP, or says more than a node has to say.
Result<HttpAnswer> HttpGet(const std::string& address, uint16_t port, const std::string& path,
                           Duration limit);

}  // namespace peercache
