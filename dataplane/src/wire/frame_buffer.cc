#include "wire/frame_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace peercache {

void UnmapFrame::operator()(std::byte* bytes) const { munmap(bytes, size); }

void FrameBuffer::ResizeSmall(size_t have, size_t size) {
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  std::memcpy(bytes.get(), data(), have);
  small_ = std::move(bytes);
  small_size_ = size;
}

bool FrameBuffer::Grow(size_t have, size_t frame) {
  if (size() < FrameMemory::kFree) {
    // Twice of what has come, so that a frame is moved less than twice in all.
    ResizeSmall(have, std::min(2 * size(), FrameMemory::kFree));
    return true;
  }
  // Not of the heap, which keeps what it was given once.
  void* mapped = mmap(nullptr, frame, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  (void)madvise(mapped, frame, MADV_DONTDUMP);  // pages
  std::memcpy(mapped, data(), have);
  large_ = {static_cast<std::byte*>(mapped), UnmapFrame{frame}};
  return true;
}

void FrameBuffer::Shrink(size_t have) {
  if (large_) {
    if (have > small_size_) ResizeSmall(have, have);
    std::memcpy(small_.get(), large_.get(), std::min(have, small_size_));
    large_.reset();
  }
  hold_->Release();
}

void FrameBuffer::Rest() {
  Shrink(0);
  if (small_size_ > kFirst) ResizeSmall(0, kFirst);
}

}  // namespace peercache
