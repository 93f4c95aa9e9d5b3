// The memory of an engine that holds its pages: the host's, which it shares with its node, or that
// of a GPU.
#pragma once

#include <optional>
#include <span>

#include "base/memory.h"
#include "base/status.h"
#include "client/client.h"
#include "gpu_memory.h"
#include "pages.h"

namespace peercache::perf {

// Memory of at least `bytes`, whole pages of 2 MiB, that has been written: no page fault is
// measured.
Result<MappedRegion> WrittenMemory(const char* name, size_t bytes, HugePages huge_pages);

// Has a place for each page of the window, over all threads.
class EngineMemory {
 public:
  static Result<EngineMemory> Create(const Shape& shape);
  // Lets the client's node move pages to and from it. Says on standard error which of the two ways
  // into a GPU the node lacks, and why.
  Status Share(Client* client) const;
  // Segments of the page in place `at` of the window.
  void SegmentsOf(size_t at, std::span<Segment> segments) const;
  // The host's only.
  void Fill(size_t at, uint64_t number);
  // Whether the page in place `at` is page `number`; says what is wrong.
  bool Check(size_t at, uint64_t number) const;
  // The host's; empty where it is a GPU's.
  std::span<std::byte> bytes() const { return host_.bytes(); }

 private:
  // Where segment `s` of a page begins, and how long each is.
  uint64_t AddressOf(size_t at, size_t s) const;
  size_t segment_bytes() const { return shape_.page_bytes / shape_.segments; }

  Shape shape_;
  MappedRegion host_;
  std::optional<GpuMemory> gpu_;
};

}  // namespace peercache::perf
