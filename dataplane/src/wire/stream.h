// Stream: whole frames over a connected non-blocking stream socket, each within a deadline. Used on
// the Unix socket between engine and node, where one thread owns one connection.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "wire/frame.h"

namespace peercache {

// A received frame; the buffer is reused from frame to frame.
struct ReceivedFrame {
  FrameHeader header;
  std::vector<std::byte> body;
  UniqueFd fd;  // that travelled with the frame, if any
};

// Sends the frame, with `fd` attached when it is not negative.
Status SendFrame(int socket, std::span<const std::byte> frame, int fd, TimePoint deadline);
// Receives one frame. kUnavailable when the other side closed; kCorrupt when it is not a frame.
// Several descriptors with one frame are refused. Waits without limit when `deadline` is absent.
// A body above `max_body` is kCorrupt, before memory is taken for it.
Status ReceiveFrame(int socket, std::optional<TimePoint> deadline, ReceivedFrame* frame,
                    uint32_t max_body = kMaxBody);

// Connects to the Unix socket at `path`; non-blocking afterwards.
Result<UniqueFd> ConnectUnix(const std::string& path);
// Listens at `path` with `mode`, replacing a dead socket file; a live one is an error.
Result<UniqueFd> ListenUnix(const std::string& path, uint32_t mode);

// Who made the connection: the kernel's word, as this process's namespaces see it (pid 0 when it
// is outside of them).
struct PeerCredentials {
  uint32_t uid = 0;
  int32_t pid = 0;
};
Result<PeerCredentials> CredentialsOf(int socket);

// Waits for `events` on fd until the deadline; false on time-out.
Result<bool> WaitFor(int fd, short events, std::optional<TimePoint> deadline);

}  // namespace peercache
