#include "node/engine/call_gate.h"

namespace peercache {

std::optional<CallGate::Pass> CallGate::Enter(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  if (free_ > 0) {
    --free_;
    return Pass(this, false);
  }
  Waiter self;
  const auto at = waiters_.insert(waiters_.end(), &self);
  if (!self.turn.wait_until(lock, deadline, [&] { return self.admitted; })) {
    waiters_.erase(at);
    return std::nullopt;
  }
  return Pass(this, true);
}

// The place goes to the first who waits, so that nobody who comes now can overtake.
void CallGate::Return() {
  std::lock_guard lock(mutex_);
  if (waiters_.empty()) {
    ++free_;
    return;
  }
  Waiter* const next = waiters_.front();
  waiters_.pop_front();
  next->admitted = true;
  next->turn.notify_one();  // under the lock: the waiter lives until it gets it
}

}  // namespace peercache
