// Which of several holders of a page a reader goes to, by what it knows of the way to each.
//
// Nothing here is configured, and nothing is agreed upon: every reader judges for itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/clock.h"

namespace peercache {

struct Way {
  bool disk = false;        // the holder has to bring the page from a drive first
  bool rdma = false;        // its pages can be READ by RDMA
  bool here = false;        // it runs on this machine
  Duration round_trip{};    // of small requests; 0: not measured yet
  uint64_t under_way = 0;   // bytes that this node is reading from there
  uint64_t preference = 0;  // directory/preference.h
};

// Holders are equal while their round trips differ by less than kEqualTrips beside the factor, the
// time that waking threads and other requests add, and while their bytes under way differ by less
// than an exchange (tcp_reader.cc).
inline constexpr Duration kEqualTrips = std::chrono::microseconds(500);
inline constexpr int kEqualFactor = 2;
inline constexpr uint64_t kEqualBytes = 32 << 20;

// The index of the nearest: one with the page in memory; then one reached by RDMA before one over
// TCP; then one on this machine; then those with about the shortest round trip, and of these those
// with about the least under way. Equals are chosen among by preference, which spreads readers.
// Looks at kMostWays at most.
inline constexpr size_t kMostWays = 8;
size_t Nearest(std::span<const Way> ways);

// The round trip to one peer, smoothed: whatever delays an answer only adds to it, so a shorter one
// counts at once and a longer one by and by. Lock-free.
class RoundTrip {
 public:
  void Took(Duration took);
  void Forget() { ns_.store(0, std::memory_order_relaxed); }
  Duration get() const { return Duration(ns_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<int64_t> ns_{0};
};

// Adds to what is under way for as long as it lives.
class UnderWay {
 public:
  UnderWay() = default;
  UnderWay(std::atomic<uint64_t>* total, uint64_t bytes) : total_(total), bytes_(bytes) {
    total_->fetch_add(bytes_, std::memory_order_relaxed);
  }
  ~UnderWay() {
    if (total_ != nullptr) total_->fetch_sub(bytes_, std::memory_order_relaxed);
  }
  UnderWay(UnderWay&& other) noexcept
      : total_(std::exchange(other.total_, nullptr)), bytes_(other.bytes_) {}
  UnderWay& operator=(UnderWay&& other) noexcept {
    std::swap(total_, other.total_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

 private:
  std::atomic<uint64_t>* total_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace peercache
