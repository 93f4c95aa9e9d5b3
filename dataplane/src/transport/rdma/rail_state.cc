#include "transport/rdma/rail_state.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace peercache::rdma {

void RailState::See(RailLook look) {
  std::lock_guard lock(mutex_);
  if (look.address.ok()) {
    Take(std::move(*look.address));
  } else {
    Wait({look.waits_for, look.address.status().message()});
  }
}

void RailState::Take(RailAddress address) {
  const bool first = address_.epoch == 0, changed = !first && !address_.SameAs(address);
  address.epoch = address_.epoch + (first || changed ? 1 : 0);
  if (changed) changes_.fetch_add(1, std::memory_order_relaxed);
  if (changed || !up()) {
    spdlog::info("rail {}: {} GID {}, {}", rail_,
                 changed ? "has another address:" : "up:", FormatGid(address.gid), address.why);
    if (!address.warning.empty()) spdlog::warn("rail {}: {}", rail_, address.warning);
  }
  address_ = std::move(address);
  waits_ = {};
  // In this order: who sees that it is up sees the epoch that it is up with.
  epoch_.store(address_.epoch, std::memory_order_release);
  up_.store(true, std::memory_order_release);
}

void RailState::Wait(Waits waits) {
  const bool was_up = up_.exchange(false, std::memory_order_acq_rel);
  if (was_up) downs_.fetch_add(1, std::memory_order_relaxed);
  if (was_up || waits.why != waits_.why)
    spdlog::warn("rail {}: not in use until this has changed: {}", rail_, waits.why);
  waits_ = std::move(waits);
}

RailAddress RailState::address() const {
  std::lock_guard lock(mutex_);
  return address_;
}

RailState::Waits RailState::waits() const {
  std::lock_guard lock(mutex_);
  return waits_;
}

}  // namespace peercache::rdma
