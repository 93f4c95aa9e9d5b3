// PeerService: what a node does for its peers, independent of the transport that carries it.
#pragma once

#include <memory>
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
  // What the peer was given along with the answer; the connection holds it until it is closed, or
  // another answer brings another.
  std::shared_ptr<const void> lent;

  // The answer to `request_id`; payload length follows from `pages`.
  void Start(MessageType type, uint64_t request_id) {
    pages.clear();
    lent.reset();
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
