#include "transport/tcp/stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <string>

namespace peercache {

void Stream::Detach() {
  fd_ = -1;
  tls_.reset();
}

Moved Stream::Done(ssize_t n, Io blocked) {
  if (n > 0) return {Io::kMoved, static_cast<size_t>(n)};
  if (n < 0 && errno == EAGAIN) return {blocked};
  error_ = n < 0 ? errno : 0;
  return {n == 0 ? Io::kClosed : Io::kFailed};
}

Moved Stream::Send(std::span<const iovec> parts, More more) {
  if (tls_) return tls_->Send(parts, more == More::kMore);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  const int flags = MSG_NOSIGNAL | (more == More::kMore ? MSG_MORE : 0);
  ssize_t n = 0;
  do n = sendmsg(fd_, &message, flags);
  while (n < 0 && errno == EINTR);
  return n == 0 ? Moved{} : Done(n, Io::kWantsWrite);  // 0: nothing but empty parts
}

Moved Stream::Receive(std::span<std::byte> to) {
  if (tls_) return tls_->Receive(to);
  ssize_t n = 0;
  do n = recv(fd_, to.data(), to.size(), 0);
  while (n < 0 && errno == EINTR);
  return Done(n, Io::kWantsRead);
}

Moved Stream::ReceiveInto(std::span<const iovec> to) {
  if (tls_) return tls_->ReceiveInto(to);
  ssize_t n = 0;
  do n = readv(fd_, to.data(), static_cast<int>(to.size()));
  while (n < 0 && errno == EINTR);
  return Done(n, Io::kWantsRead);
}

Status Stream::Failure(std::string_view doing) const {
  int error = error_;
  if (tls_) {
    if (const TlsFailure* failure = tls_->failure())
      return Unavailable(std::string(doing) + ": TLS: " + failure->text);
    error = tls_->error();
  }
  if (error == 0) return Unavailable(std::string(doing) + ": closed by the peer");
  // Our own destination is gone (an engine shrank its memory): not the peer.
  if (error == EFAULT)
    return InvalidArgument(std::string(doing) + ": the destination is not mapped any more");
  return FromErrno(doing, error);
}

}  // namespace peercache
