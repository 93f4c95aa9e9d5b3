// CallGate: at most `limit` calls of one engine are carried out at once; further ones wait for
// their turn in the order they came, for a bounded time. So an engine with many threads gets no
// more of the node's cores and peers than `limit` allows, and the others keep theirs.
//
//   auto pass = gate.Enter(Clock::now() + limit);   // held while the call is carried out
//   if (!pass) return ResourceExhausted(...);
//
// Thread-safe. The gate outlives its passes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "base/clock.h"

namespace peercache {

class CallGate {
 public:
  explicit CallGate(uint32_t limit) : free_(limit) {}

  class Pass {
   public:
    bool waited() const { return waited_; }

   private:
    friend class CallGate;
    struct Leave {
      void operator()(CallGate* gate) const { gate->Return(); }
    };
    Pass(CallGate* gate, bool waited) : gate_(gate), waited_(waited) {}
    std::unique_ptr<CallGate, Leave> gate_;
    bool waited_;
  };

  // Nothing when the turn has not come by `deadline`.
  std::optional<Pass> Enter(TimePoint deadline);

 private:
  struct Waiter {
    std::condition_variable turn;
    bool admitted = false;
  };
  void Return();

  std::mutex mutex_;
  uint32_t free_;               // more than 0 only while nobody waits
  std::list<Waiter*> waiters_;  // in the order they came
};

}  // namespace peercache
