// Stream: the bytes of one connection of the peer protocol, as they are or inside TLS. Never
// blocks.
//
//   Stream stream(fd);                                    // or (fd, tls.Connecting(fd))
//   while (stream.Handshake() ...)                        // of a plain one: done at once
//   const Moved moved = stream.Send(parts, Stream::More::kLast);
//   if (moved.io == Io::kWantsWrite) ... wait until the descriptor is writable, and again
//
// The descriptor is somebody else's and must be non-blocking; Detach() before it is closed, since
// its number may then be another connection's. What the calls of a plain stream do is exactly one
// system call each. Inside TLS, bytes may be buffered on both ways:
//   - Receive() before waiting until the descriptor is readable, always;
//   - after the last Send(), Flush() until it has moved everything.
//
// Not thread-safe. After kClosed or kFailed the stream is of no more use.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"
#include "transport/tcp/moved.h"
#include "transport/tcp/tls_session.h"

namespace peercache {

class Stream {
 public:
  Stream() = default;
  explicit Stream(int fd, std::unique_ptr<TlsSession> tls = nullptr)
      : fd_(fd), tls_(std::move(tls)) {}

  bool encrypted() const { return tls_ != nullptr; }
  void Detach();
  // kMoved: complete. The first bytes may go out before the peer has checked our certificate.
  Moved Handshake() { return tls_ ? tls_->Handshake() : Moved{}; }
  // The peer's certificate was not good, or ours was not for the peer.
  const TlsFailure* tls_failure() const { return tls_ ? tls_->failure() : nullptr; }
  // In a handshake, something was computed for the peer.
  bool answered() const { return tls_ && tls_->answered(); }

  enum class More : uint8_t { kMore, kLast };
  // Takes bytes of parts[0], parts[1], ...: at most IOV_MAX (1024) parts. After kWantsWrite the
  // next call must begin with the same bytes. kMore: there is more to send, so that the last bytes
  // may wait for company.
  Moved Send(std::span<const iovec> parts, More more);
  // What Send() has taken is with the kernel.
  Moved Flush() { return tls_ ? tls_->Flush() : Moved{}; }
  // Into memory of our own.
  Moved Receive(std::span<std::byte> to);
  // Into memory that its owner may take away meanwhile: that fails, it does not crash.
  Moved ReceiveInto(std::span<const iovec> to);

  // After kClosed or kFailed, why.
  Status Failure(std::string_view doing) const;

 private:
  Moved Done(ssize_t n, Io blocked);

  int fd_ = -1;
  std::unique_ptr<TlsSession> tls_;
  int error_ = 0;  // errno; 0: closed by the peer
};

}  // namespace peercache
