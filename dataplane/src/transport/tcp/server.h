// TcpServer: accepts peers and answers their requests, with a coroutine per connection on a few
// threads. Pages are sent straight from the pool, gathered, under a pin. With TLS, a peer that does
// not come through the handshake is treated as one whose Hello was refused.
//
// Bounds: connections, the size of frames, the memory of large ones (wire/frame_memory.h), the
// answers that wait, and the time a peer may take to accept one; a peer beyond any of them is
// disconnected. Strangers (before their Hello is accepted) get less: small frames, little time, a
// bounded number in all, and per source what gate.h says. Too many in all cost the oldest its
// place: it has had the most time to greet, and those who hold places without greeting are older
// than those who come to work.
//
// Connections that were made by a secret end within a second or so of the secret.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "transport/peer_service.h"
#include "transport/tcp/gate.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tls.h"
#include "wire/frame_memory.h"

namespace peercache {

struct TcpServerOptions {
  uint32_t threads = 2;
  uint32_t max_connections = 16384;
  Duration write_stall = milliseconds(10'000);  // longest a peer may not take any byte of an answer
  Duration frame_limit = milliseconds(10'000);  // from a request's first byte to its last
  uint32_t max_strangers = 1024;
  Duration hello_timeout =
      milliseconds(5'000);  // from the connect to a complete Hello, TLS included
  GateOptions gate{};
  const Tls* tls = nullptr;  // outlives the server; null: connections are not encrypted
  // Of large requests, and of answers that wait; outlives the server. Null: without a limit.
  FrameMemory* memory = nullptr;
};

struct TcpServerStats {
  uint64_t connections = 0, strangers = 0, accepted = 0, bad_frames = 0, bytes_sent = 0;
  // Connections that were closed early: beyond max_connections, no Hello in time, given up for
  // newer strangers, and for newer ones of the same source.
  uint64_t refused = 0, too_slow = 0, crowded_out = 0, source_crowded_out = 0;
  uint64_t unfinished = 0;  // connections closed for a request that did not come to its end in time
  uint64_t distrusted = 0;  // and because the secret they were made by is none any more
  GateStats gate;
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
