// PeerService: what a node does for its peers, independent of the transport that carries it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "pool/pool.h"
#include "transport/peer_key.h"
#include "wire/frame.h"
#include "wire/messages.h"

namespace peercache {

// The answer under construction; reused from request to request.
struct PeerAnswer {
  FrameWriter frame;
  std::vector<PagePin> pages;  // sent after the frame, in order; pinned until they have arrived
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

// The answer to a Hello.
struct Greeting : HelloOk {
  std::optional<ProofAsked> proving{};  // nothing: there is no secret
};

class PeerService {
 public:
  virtual ~PeerService() = default;
  // Checks a new connection's Hello and fills the answer, or says why not.
  virtual Status OnHello(const Hello& hello, Greeting* answer) = 0;
  // Whether connections that were made by this key may stay.
  virtual bool Trusts(uint64_t key) const { return key == 0; }
  // Handles one request without blocking. A failure is sent as Error and closes the connection.
  // Called from several threads at once.
  virtual Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) = 0;
};

}  // namespace peercache
