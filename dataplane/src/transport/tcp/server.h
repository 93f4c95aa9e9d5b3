// TcpServer: accepts peers and answers their requests, with a coroutine per connection on a few
// threads. Pages are sent straight from the pool, gathered, under a pin.
//
// Bounds: connections, the size of frames (small ones only before Hello), and the time a peer may
// take to accept an answer; a peer beyond any of them is disconnected.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "transport/peer_service.h"
#include "transport/tcp/socket.h"

namespace peercache {

struct TcpServerOptions {
  uint32_t threads = 2;
  uint32_t max_connections = 16384;
  Duration write_stall = milliseconds(10'000);  // longest a peer may not take any byte of an answer
};

struct TcpServerStats {
  uint64_t connections = 0, accepted = 0, refused = 0, bad_frames = 0, bytes_sent = 0;
};

class TcpServer {
 public:
  // Serves on the listener until destruction. `service` must outlive the server.
  TcpServer(Listener listener, PeerService* service, TcpServerOptions options);
  ~TcpServer();
  uint16_t port() const;
  TcpServerStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
