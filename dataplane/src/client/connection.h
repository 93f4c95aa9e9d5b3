// Connection: one engine-to-node connection, owned by one call at a time.
//
// A call that times out must not return while the node may still write into the engine's pages:
// LetGo() closes our sending side and waits until the node has dropped the connection, which it
// does when it has stopped working on it (or died).
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {

class Connection {
 public:
  // Connects and attaches to `session` (0: a new one). kAborted: the node does not know the
  // session, because it has restarted.
  static Result<Connection> Open(const std::string& socket, const std::string& engine,
                                 uint64_t session, TimePoint deadline);

  uint64_t session() const { return session_; }
  const std::string& node() const { return node_; }
  const std::string& node_version() const { return node_version_; }

  // The frame to fill for the next Call.
  FrameWriter& Request(MessageType type);
  // Sends the request (with `fd` if not negative) and receives its answer, which must be of type
  // `expected`; an Error answer becomes its Status. After any failure the connection is unusable.
  Status Call(MessageType expected, int fd, TimePoint deadline);
  FrameReader Answer() const { return FrameReader(frame_.body); }
  // An Error frame leaves the connection in order; anything else that failed does not.
  bool usable() const { return usable_; }

  // See above. False when the node still holds on after `limit`.
  bool LetGo(Duration limit);

 private:
  Connection() = default;
  UniqueFd fd_;
  uint64_t session_ = 0;
  uint64_t next_request_ = 1;
  bool usable_ = true;
  std::string node_, node_version_;
  FrameWriter writer_;
  ReceivedFrame frame_;
};

}  // namespace peercache
