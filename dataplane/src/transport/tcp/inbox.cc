#include "transport/tcp/inbox.h"

#include <cstring>

namespace peercache {

std::span<std::byte> Inbox::Room() {
  if (bytes_.full(have_) && !bytes_.Grow(have_, wanted_)) return {};
  return bytes_.bytes().subspan(have_);
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
  if (have_ <= FrameMemory::kFree) bytes_.Shrink(have_);
}

}  // namespace peercache
