// FrameBuffer: the bytes of one connection's frames, as they arrive. It begins with kFirst bytes
// and grows with what arrives, up to FrameMemory::kFree. A larger frame gets memory of its own,
// once it is granted, of which only what has arrived is taken. Given back, it is the kernel's.
//
//   if (buffer.full(have)) ...                  // of a frame of `size` bytes, `have` are there
//     if (!buffer.Ask(have, size, socket)) ...  // wait: hold().granted(), or hold().Await
//     buffer.Grow(have, size);
//   buffer.hold().Whole(); ... use it; buffer.Shrink(0);
//
// Not thread-safe. Movable while nobody waits for its memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "wire/frame_memory.h"

namespace peercache {

struct UnmapFrame {
  size_t size = 0;
  void operator()(std::byte* bytes) const;
};

class FrameBuffer {
 public:
  static constexpr size_t kFirst = 8 << 10;

  explicit FrameBuffer(FrameMemory* memory = nullptr)
      : hold_(std::make_unique<FrameMemory::Hold>(memory)) {}

  std::byte* data() const { return large_ ? large_.get() : small_.get(); }
  size_t size() const { return large_ ? large_.get_deleter().size : small_size_; }
  std::span<std::byte> bytes() const { return {data(), size()}; }
  bool full(size_t have) const { return have == size(); }
  // It has memory of its own for a large frame.
  bool large() const { return large_ != nullptr; }

  // Before Grow. False: memory is waited for.
  bool Ask(size_t have, size_t frame, int socket) {
    const bool needed = full(have) && size() >= FrameMemory::kFree && frame > size();
    return !needed || hold_->granted() || (hold_->idle() && hold_->Ask(frame, socket));
  }
  FrameMemory::Hold& hold() const { return *hold_; }
  // False: the system has no memory.
  bool Grow(size_t have, size_t frame);
  // Gives back what a large frame had, and what it held. Keeps the first `have` bytes.
  void Shrink(size_t have);
  // Of an idle connection, of whose frames nothing is there: down to kFirst.
  void Rest();

 private:
  void ResizeSmall(size_t have, size_t size);

  std::unique_ptr<FrameMemory::Hold> hold_;
  std::unique_ptr<std::byte[]> small_ = std::make_unique_for_overwrite<std::byte[]>(kFirst);
  size_t small_size_ = kFirst;
  std::unique_ptr<std::byte, UnmapFrame> large_;
};

}  // namespace peercache
