// PeerService: what a node does for its peers, independent of the transport that carries it.
#pragma once

#include <vector>

#include "base/status.h"
#include "pool/pool.h"
#include "wire/frame.h"
#include "wire/messages.h"

namespace peercache {

// The answer under construction; reused from request to request.
struct PeerAnswer {
  FrameWriter frame;
  std::vector<PagePin> pages;  // sent after the frame, in order; pinned until they are sent

  // The answer to `request_id`; payload length follows from `pages`.
  void Start(MessageType type, uint64_t request_id) {
    pages.clear();
    frame.Start(type, request_id);
  }
};

class PeerService {
 public:
  virtual ~PeerService() = default;
  // Checks a new connection's Hello and fills the answer, or says why not.
  virtual Status OnHello(const Hello& hello, HelloOk* answer) = 0;
  // Handles one request without blocking. A failure is sent as Error and closes the connection.
  // Called from several threads at once.
  virtual Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) = 0;
};

}  // namespace peercache
