#include "wire/stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace peercache {
namespace {

// For how long a receiver without a deadline keeps a buffer that has grown.
constexpr milliseconds kKeepTime{5'000};

Result<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument(fmt::format("socket \"{}\": the path must have 1 to {} bytes", path,
                                       sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Of SO_PEERPIDFD (Linux 6.5), which headers of Debian 12 lack.
constexpr int kPeerPidFd = 77;
// PID_FS_MAGIC of linux/magic.h: each process has an inode there, and no two have the same. Before
// Linux 6.9 all such descriptors shared one.
constexpr int64_t kPidFs = 0x50494446;

std::optional<uint64_t> ProcessOf(int socket) {
  int number = -1;
  socklen_t size = sizeof(number);
  if (getsockopt(socket, SOL_SOCKET, kPeerPidFd, &number, &size) != 0) return std::nullopt;
  const UniqueFd fd(number);
  struct statfs system {};
  struct stat file {};
  if (fstatfs(fd.get(), &system) != 0 || system.f_type != kPidFs || fstat(fd.get(), &file) != 0)
    return std::nullopt;
  return file.st_ino;
}

// 0, or why nobody was reached: EAGAIN: who listens there has not taken those before yet.
int ConnectTo(const sockaddr_un& address, UniqueFd* fd) {
  *fd = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!*fd) return errno;
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  return connect(fd->get(), to, sizeof(address)) == 0 ? 0 : errno;
}

// Why nobody was reached at `path`: see ConnectUnix.
Status NotConnected(const std::string& path, int error) {
  struct stat file {};
  const bool there = stat(path.c_str(), &file) == 0;
  if (there && !S_ISSOCK(file.st_mode)) {
    return InvalidArgument(
        S_ISDIR(file.st_mode)
            ? fmt::format("socket \"{0}\" is a folder: name the node's socket in it, such as "
                          "{0}/default.sock",
                          path)
            : fmt::format("socket \"{}\" is a file of another kind: name the node's socket", path));
  }
  const auto failed = [&](Code code, std::string_view hint) {
    return Status(code, FromErrno(fmt::format("connecting to {} {}", path, hint), error).message());
  };
  switch (error) {
    case ENOENT:
      return failed(Code::kUnavailable,
                    "no such file: is peercached running on this node, and is its socket directory "
                    "mounted here?");
    case ECONNREFUSED:
      return failed(Code::kUnavailable,
                    "no process listens: peercached has stopped; it is retried");
    case EAGAIN: return failed(Code::kUnavailable, "the node's queue of new connections is full");
    case EACCES:
      return failed(Code::kUnauthenticated,
                    "permission denied: start peercached with a wider --socket-mode");
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return failed(Code::kInvalidArgument, "the path leads nowhere: name the node's socket");
    case EPROTOTYPE:
      return failed(Code::kInvalidArgument,
                    "this socket is not a node's: name the socket of peercached");
    default: return failed(Code::kUnavailable, "");
  }
}

// Receives until there are `least` bytes, and takes up to `most` when they are there already.
Status Receive(int socket, size_t least, size_t most, std::optional<TimePoint> deadline,
               ReceivedFrame* to) {
  while (to->have < least) {
    iovec iov{to->in.data() + to->have, most - to->have};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)];
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (n == 0) return Unavailable("the other side closed the connection");
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return FromErrno("receiving", errno);
      auto readable = WaitFor(socket, POLLIN, deadline);
      if (!readable.ok()) return readable.status();
      if (!*readable) return DeadlineExceeded("no answer in time");
      continue;
    }
    bool several = (message.msg_flags & MSG_CTRUNC) != 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int value = -1;
        std::memcpy(&value, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
        UniqueFd owned(value);
        several |= static_cast<bool>(to->last_fd);
        to->last_fd = std::move(owned);
      }
    }
    if (several) return Corrupt("more than one file descriptor with one frame");
    to->have += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace

Result<bool> WaitFor(int fd, short events, std::optional<TimePoint> deadline) {
  for (;;) {
    int timeout = -1;
    if (deadline) {
      const auto left = *deadline - Clock::now();
      if (left <= Duration::zero()) return false;
      timeout = static_cast<int>(std::min<int64_t>(ToMillis(left) + 1, 60'000));
    }
    pollfd entry{fd, events, 0};
    const int n = poll(&entry, 1, timeout);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return FromErrno("poll", errno);
  }
}

void AwaitAwake(int fd, TimePoint until) {
  static const bool one = std::thread::hardware_concurrency() == 1;  // of those it may run on
  if (one) return;
  pollfd entry{fd, POLLIN, 0};
  while (poll(&entry, 1, 0) == 0 && Clock::now() < until) sched_yield();
}

Status SendFrame(int socket, std::span<const std::byte> frame, int fd, TimePoint deadline) {
  bool attach = fd >= 0;
  while (!frame.empty()) {
    iovec iov{const_cast<std::byte*>(frame.data()), frame.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    if (attach) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(c), &fd, sizeof(int));
    }
    const ssize_t n = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return FromErrno("sending", errno);
      auto writable = WaitFor(socket, POLLOUT, deadline);
      if (!writable.ok()) return writable.status();
      if (!*writable) return DeadlineExceeded("the other side does not take the request");
      continue;
    }
    attach = false;
    frame = frame.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status ReceiveFrame(int socket, std::optional<TimePoint> deadline, ReceivedFrame* frame,
                    uint32_t max_body) {
  auto& in = frame->in;
  frame->fd = UniqueFd();
  frame->have -= frame->used;
  std::memmove(in.data(), in.data() + std::exchange(frame->used, 0), frame->have);
  in.Shrink(frame->have);
  if (!deadline && frame->have == 0 && in.size() > FrameBuffer::kFirst) {
    auto readable = WaitFor(socket, POLLIN, Clock::now() + kKeepTime);
    if (!readable.ok()) return readable.status();
    if (!*readable) in.Rest();
  }
  constexpr size_t kHeader = sizeof(FrameHeader);
  if (Status s = Receive(socket, kHeader, in.size(), deadline, frame); !s.ok()) return s;
  std::memcpy(&frame->header, in.data(), kHeader);
  if (Status s = CheckHeader(frame->header); !s.ok()) return s;
  if (frame->header.payload_length != 0) return Corrupt("payload on a Unix socket");
  const size_t length = frame->header.body_length;
  if (length > max_body)
    return Corrupt(
        fmt::format("frame body of {} bytes, at most {} allowed here", length, max_body));
  const size_t size = kHeader + length;
  const TimePoint whole = deadline.value_or(Clock::now() + frame->rest_limit);
  while (frame->have < size) {
    if (in.full(frame->have)) {
      if (!in.Ask(frame->have, size, socket) && !in.hold().Await(whole))
        return DeadlineExceeded("no memory for the frame in time");
      if (!in.Grow(frame->have, size)) return ResourceExhausted("no memory for the frame");
    }
    const size_t part = std::min(size, in.size());
    if (Status s = Receive(socket, part, part, whole, frame); !s.ok()) return s;
  }
  in.hold().Whole();
  frame->body = in.bytes().subspan(kHeader, length);
  frame->used = size;
  // A system call brings no descriptor but that of the last frame it brings a part of (unix(7)).
  if (frame->have == size) frame->fd = std::move(frame->last_fd);
  return {};
}

Result<PeerCredentials> CredentialsOf(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return FromErrno("SO_PEERCRED", errno);
  }
  const uint64_t process = ProcessOf(socket).value_or(static_cast<uint64_t>(credentials.pid));
  return PeerCredentials{credentials.uid, credentials.pid, process};
}

Result<UniqueFd> ConnectUnix(const std::string& path) {
  auto address = UnixAddress(path);
  if (!address.ok()) return address.status();
  UniqueFd fd;
  if (const int error = ConnectTo(*address, &fd); error != 0) return NotConnected(path, error);
  return fd;
}

Result<UniqueFd> ListenUnix(const std::string& path, uint32_t mode) {
  auto address = UnixAddress(path);
  if (!address.ok()) return address.status().Annotate("--socket");
  UniqueFd former;
  const int error = ConnectTo(*address, &former);
  if (error == 0 || error == EAGAIN) {
    return Unavailable(
        fmt::format("socket {}: another node is already listening there; stop it or choose "
                    "another --socket",
                    path));
  }
  // What a process has left that was killed goes, and a link; no file or folder does.
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode) && !S_ISLNK(there.st_mode)) return NotConnected(path, error);
    unlink(path.c_str());
  }
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return FromErrno("socket", errno);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return FromErrno(
        fmt::format("binding socket {}: does its directory exist and is it writable?", path),
        errno);
  }
  // Of the file that was made, not of one that a link in its place leads to.
  const UniqueFd file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISSOCK(status.st_mode) ||
      chmod(fmt::format("/proc/self/fd/{}", file.get()).c_str(), mode) != 0)
    return FromErrno("chmod " + path, errno);
  if (listen(fd.get(), 128) != 0) return FromErrno("listening at " + path, errno);
  return fd;
}

}  // namespace peercache
