// Memory of a GPU that pages are read into, and the dma-buf by which a node reaches it.
//
// CUDA's driver is loaded when memory is asked for, so a machine without a GPU runs all the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"

namespace peercache::perf {

class GpuMemory {
 public:
  // Takes whole pages of 2 MiB, at least `bytes`, of the first GPU that CUDA_VISIBLE_DEVICES shows.
  // Fails, and names the remedy, where CUDA's driver, the GPU, its memory or dma-bufs are missing.
  static Result<GpuMemory> Create(size_t bytes);
  GpuMemory(GpuMemory&&) noexcept;
  GpuMemory& operator=(GpuMemory&&) noexcept;
  ~GpuMemory();

  uint64_t address() const;
  size_t size() const;
  int dma_buf() const;  // open as long as this lives
  // From `address`, within the memory. Thread-safe.
  Status Read(uint64_t address, std::span<std::byte> to) const;

 private:
  class Impl;
  explicit GpuMemory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache::perf
