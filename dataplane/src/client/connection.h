// Connection: one engine-to-node connection, owned by one call at a time.
//
// A call that times out must not return while the node may still write into the engine's pages, nor
// may the node store what it reads there from then on: Revoke() takes the pages back
// (base/permit.h), and LetGo() waits until no write is under way any more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/permit.h"
#include "base/status.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {

class Connection {
 public:
  // A connection that is not attached yet.
  static Result<Connection> Connect(const std::string& socket);
  // Attaches to `session` (0: a new one). kAborted: the node does not know the session, because it
  // has restarted. kUnavailable: the node speaks another protocol.
  Status Attach(const std::string& engine, uint64_t session, TimePoint deadline);
  // Both.
  static Result<Connection> Open(const std::string& socket, const std::string& engine,
                                 uint64_t session, TimePoint deadline);

  uint64_t session() const { return session_; }
  const std::string& node() const { return node_; }
  const std::string& node_version() const { return node_version_; }
  // Whether the node's release knows `what`, one of FrameHeader::kCan...
  bool can(uint16_t what) const { return (node_can_ & what) != 0; }

  // The frame to fill for the next Call.
  FrameWriter& Request(MessageType type);
  // How to wait for an answer. Awake is for those that come about as fast as a thread wakes: it
  // sleeps only after some 400 us, or at once where the last answer took longer.
  enum class Wait : uint8_t { kAsleep, kAwake };
  // Sends the request (with `fd` if not negative) and receives its answer, which must be of type
  // `expected`; an Error answer becomes its Status. After any failure the connection is unusable.
  Status Call(MessageType expected, int fd, TimePoint deadline, Wait wait = Wait::kAsleep);
  // Tells the node how many tokens a second the engine computes, unless this connection has. What
  // fails leaves the connection unusable, which the call that follows finds.
  void TellPrefill(uint32_t tokens_per_second, TimePoint deadline);
  FrameReader Answer() const { return FrameReader(frame_.body); }
  // An Error frame leaves the connection in order; anything else that failed does not.
  bool usable() const { return usable_; }

  // Waits, without limit, until the node has closed the connection or this side has Cut() it, which
  // any thread may; a call that is under way ends then as well.
  void AwaitEnd() const;
  void Cut() const;

  // The connection is at its end. The node reads nothing from the engine's pages that would count,
  // and begins no write into them.
  void Revoke();
  // After Revoke: waits for a write that has begun. True when it is over, or the node's process has
  // ended and the kernel has taken down its queue pairs. False when neither has happened after
  // `limit`: the node was stopped in the middle of the write, or is being taken down. Of a node
  // that has not lent its process, the end of the connection counts as the end of the process.
  bool LetGo(Duration limit);

 private:
  Connection() = default;
  UniqueFd fd_;
  std::optional<Permit> permit_;  // always there after Connect
  uint64_t session_ = 0;
  uint64_t next_request_ = 1;
  bool usable_ = true;
  bool answers_soon_ = true;  // the last one that was waited for awake
  std::string socket_, node_, node_version_;
  uint16_t node_can_ = 0;
  uint32_t told_prefill_ = 0;
  UniqueFd process_;  // the node's (base/process.h); none: of an older release
  FrameWriter writer_;
  ReceivedFrame frame_;
};

}  // namespace peercache
