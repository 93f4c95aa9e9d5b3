// Where a list of iovecs stands after a call that moved some of its bytes.
//
//   for (size_t next = 0; next < parts.size();) {
//     const ssize_t n = writev(fd, parts.data() + next, ...);
//     ...
//     next = SkipMoved(parts, next, n);
//   }
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace peercache {

// Handed to one call at most; the kernel takes IOV_MAX (1024).
constexpr size_t kIovecsPerCall = 256;

// `bytes` of parts[next...] have been moved: cuts them off, and tells the first part that has any
// left. Empty parts are passed over, so that a list never ends in a call that moves nothing.
inline size_t SkipMoved(std::span<iovec> parts, size_t next, size_t bytes) {
  for (; next < parts.size(); ++next) {
    iovec& part = parts[next];
    const size_t moved = std::min(bytes, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + moved;
    part.iov_len -= moved;
    bytes -= moved;
    if (part.iov_len > 0) break;
  }
  return next;
}

}  // namespace peercache
