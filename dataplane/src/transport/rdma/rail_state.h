// RailState: whether a rail may be used now, as whom it speaks, and what it waits for when it may
// not. Fed with what the rail sees; says in the log what has changed.
//
//   state.See(LookAt(port, preference, present));
//   if (state.up()) connect(state.address());
//   ...
//   if (state.epoch() != address.epoch) ...           // what was connected is of no use any more
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "transport/rdma/rail_address.h"

namespace peercache::rdma {

class RailState {
 public:
  explicit RailState(std::string rail) : rail_(std::move(rail)) {}

  void See(RailLook look);

  bool up() const { return up_.load(std::memory_order_acquire); }
  // Of the latest address; 0: there was none yet.
  uint32_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  // The latest, also while the rail is not up.
  RailAddress address() const;

  struct Waits {
    WaitsFor what = WaitsFor::kNothing;
    std::string why;  // with the remedy
  };
  Waits waits() const;
  // Times that it could not be used any more, and that it took another address.
  uint64_t downs() const { return downs_.load(std::memory_order_relaxed); }
  uint64_t address_changes() const { return changes_.load(std::memory_order_relaxed); }

 private:
  void Take(RailAddress address);
  void Wait(Waits waits);

  const std::string rail_;
  std::atomic<bool> up_{false};
  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint64_t> downs_{0}, changes_{0};
  mutable std::mutex mutex_;
  RailAddress address_;
  Waits waits_;
};

}  // namespace peercache::rdma
