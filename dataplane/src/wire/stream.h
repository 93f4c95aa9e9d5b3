// Stream: whole frames over a connected non-blocking stream socket, each within a deadline. Used on
// the Unix socket between engine and node, where one thread owns one connection.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "wire/frame.h"
#include "wire/frame_buffer.h"

namespace peercache {

// Frames received from one socket, one after another. The buffer is reused. It grows with what
// arrives, not with what a header announces, and waits for memory of a large frame where there is a
// budget. A large frame's memory is given back before the next frame is waited for, the rest when a
// receiver without a deadline has waited for a while.
struct ReceivedFrame {
  // From the header of a frame to its end, where nothing else bounds it.
  static constexpr milliseconds kRest{10'000};

  explicit ReceivedFrame(FrameMemory* memory = nullptr, Duration rest = kRest)
      : rest_limit(rest), in(memory) {}

  FrameHeader header;
  std::span<const std::byte> body;  // valid until the next frame is received
  UniqueFd fd;                      // that travelled with the frame, if any

  Duration rest_limit;

  // Of ReceiveFrame: what one system call has brought, and how much of it is this frame.
  FrameBuffer in;
  size_t have = 0, used = 0;
  UniqueFd last_fd;  // of the last frame that has begun
};

// Sends the frame, with `fd` attached when it is not negative.
Status SendFrame(int socket, std::span<const std::byte> frame, int fd, TimePoint deadline);
// Receives one frame. kUnavailable when the other side closed; kCorrupt when it is not a frame.
// Several descriptors with one frame are refused. Waits without limit when `deadline` is absent,
// but for the rest of a frame whose header is there: `rest_limit`. A body above `max_body` is
// kCorrupt, before memory is taken for it.
Status ReceiveFrame(int socket, std::optional<TimePoint> deadline, ReceivedFrame* frame,
                    uint32_t max_body = kMaxBody);

// Connects to the Unix socket at `path`; non-blocking afterwards. kUnavailable: nobody is there
// now. kInvalidArgument: `path` can be no node's socket. kUnauthenticated: its mode forbids it.
Result<UniqueFd> ConnectUnix(const std::string& path);
// Listens at `path` with `mode`, in place of a socket whose process has ended. Fails when somebody
// listens there, or when there is something else.
Result<UniqueFd> ListenUnix(const std::string& path, uint32_t mode);

// Who made the connection: the kernel's word, as this process's namespaces see it (pid 0 when it
// is outside of them).
struct PeerCredentials {
  uint32_t uid = 0;
  int32_t pid = 0;
  // Tells processes apart in any PID namespace (Linux 6.9); the pid on an older kernel. 0: unknown.
  uint64_t process = 0;
};
Result<PeerCredentials> CredentialsOf(int socket);

// Waits for `events` on fd until the deadline; false on time-out.
Result<bool> WaitFor(int fd, short events, std::optional<TimePoint> deadline);
// Returns when there is something to receive, or at `until`. Does not sleep meanwhile, because to
// wake a thread takes 5 to 200 us; but others go first where they have no processor of their own,
// such as the node that is to answer. At once, if this thread may run on a single processor.
void AwaitAwake(int fd, TimePoint until);

}  // namespace peercache
