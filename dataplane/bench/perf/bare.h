// Bare: the limits, what the machine can do without PeerCache, over the same pages, with the same
// number of threads: copying memory, one bare TCP connection that moves pages, and a bare
// ping-pong.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "measure.h"
#include "pages.h"

namespace peercache::perf {

// memcpy from a host pool of `window` pages to another memory of `pages` pages, page by page.
Result<Measurement> Memcpy(const Shape& shape);

// Where ServePages is at work, on another host. No port: a process of our own, over loopback.
struct Sender {
  std::string host;
  uint16_t port = 0;
};

// Two processes and one connection per thread: the sender sends the pages of a memory of `pages`
// pages, the receiver receives them into the pages of its host pool.
Result<Measurement> TcpPages(const Shape& shape, const Sender& from);

// The sender, for receivers on other hosts: says {"port": N} on standard output, and then sends to
// whoever connects until it is killed.
Status ServePages(const Shape& shape, uint16_t port);

// Two processes, one connection, `message_bytes` there and back with blocking calls.
Result<nlohmann::json> TcpPingPong(size_t message_bytes, double seconds);

}  // namespace peercache::perf
