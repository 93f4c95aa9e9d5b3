// Bare: the limits, what the machine can do without PeerCache, over the same pages, with the same
// number of threads: copying memory, one bare TCP connection that moves pages, and a bare
// ping-pong.
#pragma once

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "load.h"

namespace peercache::perf {

// memcpy from a host pool of `window` pages to another memory of `pages` pages, page by page.
Result<nlohmann::json> Memcpy(const Shape& shape);

// Two processes and one connection per thread over loopback: the sender gathers `batch` pages at a
// time from a memory of `pages` pages, the receiver receives them into the pages of its host pool.
Result<nlohmann::json> TcpPages(const Shape& shape);

// Two processes, one connection, `message_bytes` there and back with blocking calls.
Result<nlohmann::json> TcpPingPong(size_t message_bytes, double seconds);

}  // namespace peercache::perf
