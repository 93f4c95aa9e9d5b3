// Inbox: what has arrived of one peer's frames. Its memory grows with what arrives, never with what
// a header announces, and that of large frames is under a budget (wire/frame_memory.h).
//
//     if (!inbox.Ask(socket)) ...               // waits: inbox.hold().granted()
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

#include "base/clock.h"
#include "wire/frame_buffer.h"

namespace peercache {

class Inbox {
 public:
  // At first; what a stranger may have.
  static constexpr size_t kFirst = FrameBuffer::kFirst;

  explicit Inbox(FrameMemory* memory = nullptr) : bytes_(memory) {}

  // Before Room. False: memory for the frame that has begun is waited for.
  bool Ask(int socket) { return bytes_.Ask(have_, wanted_, socket); }
  FrameMemory::Hold& hold() const { return bytes_.hold(); }
  // At least a byte, or none when the system has no memory.
  std::span<std::byte> Room();
  void Arrived(size_t bytes, TimePoint now);
  std::span<const std::byte> unread() const {
    return std::span<const std::byte>(bytes_.bytes()).subspan(used_, have_ - used_);
  }
  void Consume(size_t bytes) { used_ += bytes; }
  // unread() is the beginning of a frame of this size.
  void Want(size_t frame) { wanted_ = frame; }
  // After a pass over unread(), whose spans end here. Gives back the memory of a large frame.
  void Settle(TimePoint now);

  // When the frame that is not whole yet began; nothing: there is none.
  std::optional<TimePoint> began() const { return began_; }
  size_t wanted() const { return wanted_; }
  size_t size() const { return bytes_.size(); }
  bool large() const { return bytes_.large(); }

 private:
  FrameBuffer bytes_;
  size_t used_ = 0, have_ = 0, wanted_ = 0;
  std::optional<TimePoint> began_;
};

}  // namespace peercache
