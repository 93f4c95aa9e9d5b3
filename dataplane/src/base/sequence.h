// Sequence: numbers that only grow, for whoever must tell the younger of two. Thread-safe, without
// locks.
#pragma once

#include <atomic>
#include <cstdint>

namespace peercache {

class Sequence {
 public:
  uint64_t Next() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // All that come are at least this.
  void RaiseTo(uint64_t least) {
    uint64_t next = next_.load(std::memory_order_relaxed);
    while (next < least && !next_.compare_exchange_weak(next, least, std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<uint64_t> next_{1};
};

}  // namespace peercache
