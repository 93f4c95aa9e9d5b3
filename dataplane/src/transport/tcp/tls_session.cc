#include "transport/tcp/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/copy.h"
#include "transport/tcp/tls.h"

namespace peercache {
namespace {

constexpr size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;  // 16 KiB: the most that one record holds
// Records that go to the kernel at once, and what is read ahead at most. One system call, and one
// wake-up of the other side, per record would cost as much as the encryption.
constexpr size_t kOutBytes = 128 << 10;
constexpr size_t kReadAhead = 128 << 10;
// Parts of one destination that a record may be spread over in one step; the rest is the next step.
constexpr size_t kPartsPerRecord = 64;

}  // namespace

// A BIO of OpenSSL over the socket. Its own socket BIO raises SIGPIPE and makes a system call for
// each record.
struct TlsSession::Bio {
  static TlsSession* Of(BIO* bio) { return static_cast<TlsSession*>(BIO_get_data(bio)); }

  static int Write(BIO* bio, const char* data, int size) {
    TlsSession* session = Of(bio);
    BIO_clear_retry_flags(bio);
    session->answered_ = true;
    const auto bytes = static_cast<size_t>(size);
    if (session->out_.size() + bytes > kOutBytes && !session->out_.empty()) {
      const Moved drained = session->Drain();
      if (drained.io == Io::kWantsWrite) BIO_set_retry_write(bio);
      if (drained.io != Io::kMoved) return -1;
    }
    const auto* from = reinterpret_cast<const std::byte*>(data);
    session->out_.insert(session->out_.end(), from, from + bytes);
    return size;
  }

  static int Read(BIO* bio, char* data, int size) {
    TlsSession* session = Of(bio);
    BIO_clear_retry_flags(bio);
    ssize_t n = 0;
    do n = recv(session->fd_, data, static_cast<size_t>(size), 0);
    while (n < 0 && errno == EINTR);
    if (n == 0) session->end_ = true;
    if (n < 0 && errno == EAGAIN) BIO_set_retry_read(bio);
    if (n < 0 && errno != EAGAIN) session->error_ = errno;
    return static_cast<int>(n);
  }

  static long Control(BIO* bio, int command, long, void*) {
    TlsSession* session = Of(bio);
    switch (command) {
      case BIO_CTRL_FLUSH: {  // the end of a flight of the handshake, or an alert
        BIO_clear_retry_flags(bio);
        const Moved drained = session->Drain();
        if (drained.io == Io::kWantsWrite) BIO_set_retry_write(bio);
        return drained.io == Io::kMoved ? 1 : -1;
      }
      case BIO_CTRL_EOF: return session->end_ ? 1 : 0;
      default: return 0;
    }
  }

  static const BIO_METHOD* Method() {
    static const BIO_METHOD* const method = [] {
      BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "peercache");
      BIO_meth_set_write(m, Write);
      BIO_meth_set_read(m, Read);
      BIO_meth_set_ctrl(m, Control);
      return m;
    }();
    return method;
  }
};

TlsSession::TlsSession(ssl_ctx_st* context, Side side, int fd, TlsMeters* meters)
    : ssl_(SSL_new(context)), fd_(fd), meters_(meters) {
  BIO* bio = ssl_ != nullptr ? BIO_new(Bio::Method()) : nullptr;
  if (bio == nullptr) {  // out of memory: the connection fails
    failure_ = TlsFailure{TlsProblem::kProtocol, LastTlsError()};
    return;
  }
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  if (side == Side::kConnects) {
    SSL_set_connect_state(ssl_);
  } else {
    SSL_set_accept_state(ssl_);
  }
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

Moved TlsSession::Handshake() {
  if (failure_) return {Io::kFailed};
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result != 1) return Failed(result);
  const Moved flushed = Flush();
  if (flushed.io != Io::kMoved) return flushed;
  handshaken_ = true;
  // Only now: a stranger gets little memory.
  SSL_set_default_read_buffer_len(ssl_, kReadAhead);
  return {};
}

Moved TlsSession::Send(std::span<const iovec> parts, bool more) {
  size_t taken = 0, at = 0, part = 0;  // `at`: of parts[part], the first byte not taken
  size_t total = 0;
  for (const iovec& p : parts) total += p.iov_len;
  if (out_.capacity() == 0) out_.reserve(std::min(total + total / 64 + 1024, kOutBytes));
  std::array<std::byte, kRecord> gathered;
  while (taken < total) {
    while (parts[part].iov_len == at) {
      ++part;
      at = 0;
    }
    const auto* from = static_cast<const std::byte*>(parts[part].iov_base) + at;
    size_t size = std::min(parts[part].iov_len - at, kRecord);
    // Small parts share a record. A call that is repeated makes the same record again, as it must.
    if (size < kRecord && size < total - taken) {
      size = 0;
      for (size_t p = part, a = at; p < parts.size() && size < kRecord; ++p, a = 0) {
        const size_t take = std::min(parts[p].iov_len - a, kRecord - size);
        if (take == 0) continue;
        std::memcpy(gathered.data() + size, static_cast<const std::byte*>(parts[p].iov_base) + a,
                    take);
        size += take;
      }
      from = gathered.data();
    }
    ERR_clear_error();
    size_t written = 0;
    if (const int result = SSL_write_ex(ssl_, from, size, &written); result != 1) {
      const Moved failed = Failed(result);
      if (taken > 0 && failed.io == Io::kWantsWrite) return {Io::kMoved, taken};
      if (failed.io == Io::kFailed && !failure_) AskWhy();
      return failed;
    }
    taken += written;
    for (size_t left = written; left > 0;) {
      const size_t step = std::min(left, parts[part].iov_len - at);
      left -= step;
      at += step;
      if (left > 0) {
        ++part;
        at = 0;
      }
    }
  }
  if (!more) {
    const Moved flushed = Flush();
    if (flushed.io == Io::kFailed) return flushed;
  }
  return {Io::kMoved, taken};
}

Moved TlsSession::Flush() {
  const Moved drained = Drain();
  if (drained.io == Io::kFailed) AskWhy();
  if (drained.io == Io::kMoved) out_ = {};
  return drained;
}

Moved TlsSession::Drain() {
  while (out_sent_ < out_.size()) {
    const ssize_t n = send(fd_, out_.data() + out_sent_, out_.size() - out_sent_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return {Io::kWantsWrite};
    if (n < 0) {
      error_ = errno;
      return {Io::kFailed};
    }
    out_sent_ += static_cast<size_t>(n);
  }
  out_sent_ = 0;
  out_.clear();
  return {};
}

// The connection broke while we sent. A peer that refuses our certificate says so before it closes.
void TlsSession::AskWhy() {
  if (!handshaken_ || proven_) return;
  ERR_clear_error();
  std::byte byte;
  size_t n = 0;
  const int error = error_;
  if (const int result = SSL_read_ex(ssl_, &byte, 1, &n); result != 1) (void)Failed(result);
  error_ = error;
}

Moved TlsSession::Receive(std::span<std::byte> to) {
  size_t have = 0;
  do {
    ERR_clear_error();
    size_t n = 0;
    const int result = SSL_read_ex(ssl_, to.data() + have, to.size() - have, &n);
    if (result != 1) {
      const Moved failed = Failed(result);
      return have > 0 ? Moved{Io::kMoved, have} : failed;
    }
    proven_ = true;
    have += n;
  } while (have < to.size() && SSL_has_pending(ssl_) == 1);
  return {Io::kMoved, have};
}

Moved TlsSession::ReceiveInto(std::span<const iovec> to) {
  std::array<Bytes, kPartsPerRecord> parts;
  size_t count = 0, room = 0;
  for (; count < std::min(to.size(), kPartsPerRecord) && room < kRecord; ++count) {
    const size_t size = std::min(to[count].iov_len, kRecord - room);
    parts[count] = {static_cast<std::byte*>(to[count].iov_base), size};
    room += size;
  }
  std::array<std::byte, kRecord> plain;
  ERR_clear_error();
  size_t n = 0;
  if (const int result = SSL_read_ex(ssl_, plain.data(), room, &n); result != 1)
    return Failed(result);
  proven_ = true;
  size_t left = n;
  for (size_t i = 0; i < count; ++i) {
    parts[i] = parts[i].first(std::min(left, parts[i].size()));
    left -= parts[i].size();
  }
  if (!GuardedScatter(std::span(parts).first(count), ConstBytes(plain).first(n))) {
    error_ = EFAULT;
    return {Io::kFailed};
  }
  return {Io::kMoved, n};
}

Moved TlsSession::Failed(int result) {
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ: return {Io::kWantsRead};
    case SSL_ERROR_WANT_WRITE: return {Io::kWantsWrite};
    case SSL_ERROR_ZERO_RETURN: return {Io::kClosed};
    case SSL_ERROR_SYSCALL:
      // Closing in the middle of a handshake is reported like this, too.
      return {error_ == 0 ? Io::kClosed : Io::kFailed};
    default: break;
  }
  failure_ = ExplainTls(ssl_);
  // A peer that connects knows only after its handshake whether its certificate was good.
  if (!handshaken_ || !proven_) meters_->Failed(failure_->problem);
  return {Io::kFailed};
}

}  // namespace peercache
