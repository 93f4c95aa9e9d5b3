#include "client/connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "version.h"

namespace peercache {
namespace {

// An exists of another node's keys takes 50 to 130 us, and up to 300 where the machine is busy;
// waking this thread costs 5 to 200 more. It is the engine's own, and would have waited.
constexpr auto kAwake = std::chrono::microseconds(400);

}  // namespace

Result<Connection> Connection::Connect(const std::string& socket) {
  auto fd = ConnectUnix(socket);
  if (!fd.ok()) return fd.status();
  Connection connection;
  connection.socket_ = socket;
  connection.fd_ = std::move(*fd);
  auto permit = Permit::Create();
  if (!permit.ok()) return permit.status();
  connection.permit_ = std::move(*permit);
  return connection;
}

Status Connection::Attach(const std::string& engine, uint64_t session, TimePoint deadline) {
  AttachRequest request{session, engine.substr(0, kMaxIdBytes), kVersion};
  request.Encode(&Request(MessageType::kAttach));
  if (Status s = Call(MessageType::kAttachOk, permit_->fd(), deadline); !s.ok()) {
    const FrameHeader& answer = frame_.header;
    if (answer.magic == FrameHeader::kMagic && answer.version != FrameHeader::kVersion) {
      return Unavailable(fmt::format(
          "the node at {} speaks protocol version {}, this engine (release {}) version {}; bring "
          "both to one release. The node answers: {}",
          socket_, answer.version, kVersion, FrameHeader::kVersion, s.message()));
    }
    return s.Annotate("attaching to the node at " + socket_);
  }
  AttachOk answer;
  FrameReader reader = Answer();
  if (!answer.Decode(&reader) || answer.session == 0 ||
      (session != 0 && answer.session != session)) {
    usable_ = false;
    return Corrupt("malformed AttachOk from the node at " + socket_);
  }
  session_ = answer.session;
  node_ = std::move(answer.node);
  node_version_ = std::move(answer.version);
  node_can_ = frame_.header.can;
  process_ = std::move(frame_.fd);
  return {};
}

Result<Connection> Connection::Open(const std::string& socket, const std::string& engine,
                                    uint64_t session, TimePoint deadline) {
  auto connection = Connect(socket);
  if (!connection.ok()) return connection;
  if (Status s = connection->Attach(engine, session, deadline); !s.ok()) return s;
  return connection;
}

void Connection::AwaitEnd() const {
  // No event is asked for: what is always reported is the end of both directions, and an error.
  for (pollfd entry{fd_.get(), 0, 0}; poll(&entry, 1, -1) < 0 && errno == EINTR;) {
  }
}

void Connection::Cut() const { shutdown(fd_.get(), SHUT_RDWR); }

FrameWriter& Connection::Request(MessageType type) {
  writer_.Start(type, next_request_++);
  return writer_;
}

void Connection::TellPrefill(uint32_t tokens_per_second, TimePoint deadline) {
  if (tokens_per_second == told_prefill_ || !can(FrameHeader::kCanPrefill)) return;
  Request(MessageType::kPrefill).Put(tokens_per_second);
  if (Call(MessageType::kPrefillOk, -1, deadline).ok()) told_prefill_ = tokens_per_second;
}

Status Connection::Call(MessageType expected, int fd, TimePoint deadline, Wait wait) {
  usable_ = false;
  if (Status s = SendFrame(fd_.get(), writer_.Finish(), fd, deadline); !s.ok()) return s;
  const TimePoint sent = Clock::now();
  if (wait == Wait::kAwake && answers_soon_)
    AwaitAwake(fd_.get(), std::min(deadline, sent + kAwake));
  if (Status s = ReceiveFrame(fd_.get(), deadline, &frame_); !s.ok()) return s;
  if (wait == Wait::kAwake) answers_soon_ = Clock::now() - sent < 2 * kAwake;
  if (frame_.header.request_id != next_request_ - 1) {
    return Corrupt(fmt::format("answer to request {}, expected {}", frame_.header.request_id,
                               next_request_ - 1));
  }
  if (frame_.header.type == MessageType::kError) {
    ErrorMessage error;
    FrameReader reader = Answer();
    if (!error.Decode(&reader)) return Corrupt("malformed Error from the node");
    usable_ = true;
    return error.status;
  }
  if (frame_.header.type != expected) {
    return Corrupt(fmt::format("answer of type {}, expected {}",
                               static_cast<int>(frame_.header.type), static_cast<int>(expected)));
  }
  usable_ = true;
  return {};
}

void Connection::Revoke() {
  permit_->Revoke();
  shutdown(fd_.get(), SHUT_WR);  // the node drops the connection when it comes to it
}

bool Connection::LetGo(Duration limit) {
  // A write is a copy of one page: it is over before anybody could be told that it is.
  constexpr Duration kLook = milliseconds(1);
  const TimePoint deadline = Clock::now() + limit;
  std::byte sink[4096];
  bool ended = false;  // the connection
  while (permit_->InUse()) {
    if (!ended) {
      const ssize_t n = recv(fd_.get(), sink, sizeof(sink), 0);
      if (n > 0 || (n < 0 && errno == EINTR)) continue;
      ended = n == 0 || errno != EAGAIN;
      // The kernel closes the files of a process in no order: its NICs may still carry out READs.
      if (ended && !process_) return true;
    }
    const TimePoint now = Clock::now();
    const auto happened = WaitFor(ended ? process_.get() : fd_.get(), POLLIN,
                                  std::min(now + kLook, std::max(now, deadline)));
    if (ended && happened.ok() && *happened) return true;
    if (now >= deadline) return false;
  }
  return true;
}

}  // namespace peercache
