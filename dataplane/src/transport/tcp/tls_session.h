// TlsSession: the TLS of one connection, over a non-blocking socket that somebody else owns. Used
// through Stream; made by Tls.
//
// Ciphertext that is ready goes out in few large system calls: records collect in a buffer until it
// is full or the caller says that no more comes. What is received is read ahead as far as it has
// come. Neither buffer is kept while the connection is idle.
//
// Pages are decrypted into a small buffer on the stack and copied from there under the guard of
// base/copy.h: the memory of an engine can vanish at any time, and where the kernel would then
// answer EFAULT, a write of our own would end the process.
//
// Not thread-safe.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/tcp/moved.h"
#include "transport/tcp/tls_error.h"

struct bio_st;
struct ssl_st;
struct ssl_ctx_st;

namespace peercache {

class TlsMeters;

class TlsSession {
 public:
  enum class Side : uint8_t { kConnects, kAccepts };

  // `meters` counts handshakes, and outlives the session.
  TlsSession(ssl_ctx_st* context, Side side, int fd, TlsMeters* meters);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // As those of Stream.
  Moved Handshake();
  Moved Send(std::span<const iovec> parts, bool more);
  Moved Flush();
  Moved Receive(std::span<std::byte> to);
  Moved ReceiveInto(std::span<const iovec> to);

  // Set when TLS itself has failed; else error() is the errno of what failed, 0 when the peer
  // closed.
  const TlsFailure* failure() const { return failure_ ? &*failure_ : nullptr; }
  int error() const { return error_; }
  // Something was computed for the peer.
  bool answered() const { return answered_; }

 private:
  struct Bio;  // what OpenSSL reads from and writes to: this object

  // What a call on ssl_ that has not succeeded came to.
  Moved Failed(int result);
  // Gives the kernel what is in out_.
  Moved Drain();
  void AskWhy();

  ssl_st* ssl_ = nullptr;
  const int fd_;
  TlsMeters* const meters_;
  bool handshaken_ = false;
  bool proven_ = false;  // bytes of the peer have come: it has accepted our certificate
  bool answered_ = false;
  bool end_ = false;  // the peer has closed its direction
  int error_ = 0;
  std::optional<TlsFailure> failure_;
  std::vector<std::byte> out_;  // records on their way
  size_t out_sent_ = 0;         // bytes of it that the kernel has taken
};

}  // namespace peercache
