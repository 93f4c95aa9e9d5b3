// AlignedBuffer: memory that O_DIRECT takes, whatever the device wants (kBlock).
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "disk/format.h"

namespace peercache::disk {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes)
      : size_(AlignUp(bytes)),
        memory_(static_cast<std::byte*>(std::aligned_alloc(kBlock, size_))) {}
  // False: there was no memory.
  explicit operator bool() const { return memory_ != nullptr; }
  std::byte* data() const { return memory_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  size_t size_ = 0;
  std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace peercache::disk
