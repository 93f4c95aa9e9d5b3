// Inbox: what has arrived of one peer's frames. Its memory grows with what arrives, never with what
// a header announces.
//
//     inbox.Arrived(receive into inbox.Room());
//     ... inbox.unread(), and of each whole frame inbox.Consume(size); of the last inbox.Want(size)
//     inbox.Settle();
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"

namespace peercache {

class Inbox {
 public:
  // At first; what a stranger may have.
  static constexpr size_t kFirst = 8 << 10;
  // Enough for nearly all requests; what is kept of more.
  static constexpr size_t kKept = 64 << 10;

  // At least a byte.
  std::span<std::byte> Room();
  void Arrived(size_t bytes, TimePoint now);
  std::span<const std::byte> unread() const {
    return std::span(bytes_).subspan(used_, have_ - used_);
  }
  void Consume(size_t bytes) { used_ += bytes; }
  // unread() is the beginning of a frame of this size.
  void Want(size_t frame) { wanted_ = frame; }
  // After a pass over unread(), whose spans end here. Gives back what is left of a large frame.
  void Settle(TimePoint now);

  // When the frame that is not whole yet began; nothing: there is none.
  std::optional<TimePoint> began() const { return began_; }
  size_t wanted() const { return wanted_; }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kFirst);
  size_t used_ = 0, have_ = 0, wanted_ = 0;
  std::optional<TimePoint> began_;
};

}  // namespace peercache
