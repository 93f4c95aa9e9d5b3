#include "transport/tcp/inbox.h"

#include <algorithm>
#include <cstring>

namespace peercache {

std::span<std::byte> Inbox::Room() {
  if (have_ == bytes_.size()) {
    // Twice of what has come, so that a frame is moved less than twice in all.
    bytes_.resize(std::min(2 * bytes_.size(), std::max(wanted_, kKept)));
  }
  return std::span(bytes_).subspan(have_);
}

void Inbox::Arrived(size_t bytes, TimePoint now) {
  have_ += bytes;
  if (!began_) began_ = now;
}

void Inbox::Settle(TimePoint now) {
  if (used_ == 0) return;
  have_ -= used_;
  std::memmove(bytes_.data(), bytes_.data() + used_, have_);
  used_ = 0;
  if (have_ == 0) {
    began_.reset();
    wanted_ = 0;
  } else {
    began_ = now;
  }
  if (bytes_.size() > kKept && have_ <= kKept) {
    bytes_.resize(kKept);
    bytes_.shrink_to_fit();
  }
}

}  // namespace peercache
