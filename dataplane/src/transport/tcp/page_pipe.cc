#include "transport/tcp/page_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/iovec.h"

namespace peercache {
namespace {

// References to 32 small pages at a time: the receiver starts to copy while the next are gathered,
// and they stay in the cache of the core. Larger pipes measured slower.
constexpr int kPipeBytes = 128 << 10;

}  // namespace

PagePipe PagePipe::Create() {
  PagePipe pipe;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return pipe;
  pipe.read_ = UniqueFd(ends[0]);
  pipe.write_ = UniqueFd(ends[1]);
  (void)fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
  return pipe;
}

PagePipe::Progress PagePipe::Send(int socket, std::span<iovec> pages, size_t* next,
                                  uint64_t* sent) {
  for (;;) {
    if (*next < pages.size()) {
      const ssize_t n = vmsplice(write_.get(), pages.data() + *next,
                                 std::min(kIovecsPerCall, pages.size() - *next), SPLICE_F_NONBLOCK);
      if (n < 0 && errno != EAGAIN && errno != EINTR)
        return held_ == 0 ? Progress::kUnsupported : Progress::kFailed;
      const size_t taken = n > 0 ? static_cast<size_t>(n) : 0;
      *next = SkipMoved(pages, *next, taken);
      held_ += taken;
    }
    if (held_ == 0 && *next == pages.size()) return Progress::kDone;
    const unsigned more = *next < pages.size() ? SPLICE_F_MORE : 0;
    const ssize_t n =
        splice(read_.get(), nullptr, socket, nullptr, held_, SPLICE_F_NONBLOCK | more);
    if (n > 0) {
      held_ -= static_cast<size_t>(n);
      *sent += static_cast<uint64_t>(n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      return Progress::kFailed;
    } else if (errno == EAGAIN) {
      return Progress::kBlocked;
    }
  }
}

}  // namespace peercache
