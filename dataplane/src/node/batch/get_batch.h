// GetBatch: the pages of one get, and those of them that have not been brought yet. Each source of
// pages takes from `wanted` what it can bring and leaves the rest for the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "node/batch/destinations.h"
#include "node/count/counters.h"

namespace peercache {

struct GetBatch {
  std::span<const Key> keys;
  const Destinations& to;
  std::span<uint8_t> ok;  // the PageSource of each page; kNowhere until it is in place
  TimePoint start;        // of the call
  // What it costs the engine to compute one of the pages; zero: it has not said.
  Duration recompute{};
  std::vector<size_t> wanted{};       // indexes of keys
  std::vector<uint64_t> checksums{};  // of pages that records have led to; else 0
  std::vector<uint8_t> left{};        // 1: the own disk has it, and is too slow; empty: of no page

  // The deadlines are what the pages are worth, and reads may be cut short.
  bool hurried() const { return recompute > Duration::zero(); }
  void Deliver(size_t page, PageSource source) { ok[page] = static_cast<uint8_t>(source); }
  bool Left(size_t page) const { return !left.empty() && left[page] != 0; }
  // Takes from `wanted` what has been delivered.
  void DropDelivered() {
    std::erase_if(wanted, [this](size_t page) { return ok[page] != 0; });
  }
  uint64_t WantedBytes() const {
    uint64_t bytes = 0;
    for (const size_t page : wanted) bytes += to.SizeOf(page);
    return bytes;
  }
};

}  // namespace peercache
