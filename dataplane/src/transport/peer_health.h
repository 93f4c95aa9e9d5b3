// PeerHealth: the circuit breaker of one peer. A failure opens it; while it is open, calls answer
// at once instead of waiting for a peer that is dead, slow or cut off. It closes when anything gets
// an answer again: the keepalives, which ignore the breaker, are the probes.
//
// Thread-safe, lock-free.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace peercache {

class PeerHealth {
 public:
  static constexpr milliseconds kFirstPause{500};
  static constexpr milliseconds kLongestPause{8000};
  // Longer than the pause between two keepalives, so that one answer of a peer that comes and goes
  // does not count.
  static constexpr milliseconds kRecovery{1000};

  // May a call try this peer now?
  bool Allows(TimePoint now) const { return now >= Until(); }
  void Succeeded() {
    failures_.store(0, std::memory_order_relaxed);
    open_until_.store(0, std::memory_order_release);
  }
  void Failed(TimePoint now) {
    last_failed_.store(now.time_since_epoch().count(), std::memory_order_release);
    const uint32_t n = std::min(failures_.fetch_add(1, std::memory_order_relaxed), 8u);
    const Duration pause = std::min<Duration>(kFirstPause * (1 << n), kLongestPause);
    open_until_.store((now + pause).time_since_epoch().count(), std::memory_order_release);
    trips_.fetch_add(1, std::memory_order_relaxed);
  }
  // Half open: the pause is over, and nothing has got an answer yet.
  enum class State : uint8_t { kClosed, kOpen, kHalfOpen };
  State state(TimePoint now) const {
    const int64_t until = open_until_.load(std::memory_order_acquire);
    if (until == 0) return State::kClosed;
    return now < TimePoint(Duration(until)) ? State::kOpen : State::kHalfOpen;
  }
  // No exchange has succeeded since one failed, or only for a moment.
  bool Suspect(TimePoint now) const {
    const int64_t failed = last_failed_.load(std::memory_order_acquire);
    return failed != 0 && (failures_.load(std::memory_order_relaxed) != 0 ||
                           now < TimePoint(Duration(failed)) + kRecovery);
  }
  // Another process is at the peer's place.
  void Reset() {
    last_failed_.store(0, std::memory_order_release);
    Succeeded();
  }
  // Failures, each of which opened the breaker or kept it open.
  uint64_t trips() const { return trips_.load(std::memory_order_relaxed); }

 private:
  TimePoint Until() const {
    return TimePoint(Duration(open_until_.load(std::memory_order_acquire)));
  }
  std::atomic<int64_t> open_until_{0};
  std::atomic<uint32_t> failures_{0};
  std::atomic<int64_t> last_failed_{0};  // 0: never
  std::atomic<uint64_t> trips_{0};
};

}  // namespace peercache
