// DeviceContext: an RDMA device that is open, with what a rail makes everything else from. One that
// has failed, or was taken away, is of no use ever again: the rail opens the device anew. What was
// made from a context holds it, so that it is closed after the last of that is gone.
//
//   auto device = DeviceContext::Open("mlx5_0", 1);
//   CqHandle cq(device->verbs->create_cq(device->context.get(), ...));
//
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "transport/rdma/verbs.h"

namespace peercache::rdma {

struct DeviceContext {
  static Result<std::shared_ptr<DeviceContext>> Open(const std::string& name, uint8_t port);

  // Of the next completion queue: the device's interrupts, and so its processors, in turn.
  int NextVector() const {
    const auto vectors = static_cast<unsigned>(std::max(context->num_comp_vectors, 1));
    return static_cast<int>(next_vector_.fetch_add(1, std::memory_order_relaxed) % vectors);
  }
  // Whether it answers no calls any more, as a device that was taken away. Asks it.
  bool Gone() const;
  // Whether it is a program: soft-RoCE.
  bool software() const { return limits.vendor_id == kSoftRoce; }

  const Verbs* verbs = nullptr;
  uint8_t port = 1;
  ContextHandle context;
  PdHandle pd;
  // For queue pairs that answer peers: they need one, though nothing completes there.
  CqHandle answering;
  ibv_device_attr limits{};
  uint32_t max_message_bytes = 0;
  Status on_demand_paging;  // whether it has it (on_demand.h)
  // The rail has given it up.
  std::atomic<bool> failed{false};

 private:
  static constexpr uint32_t kSoftRoce = 0xffffff;  // RXE_VENDOR_ID of its driver
  mutable std::atomic<unsigned> next_vector_{0};
};

// What the kernel answers for a device that was taken away.
bool IsGone(int error);

}  // namespace peercache::rdma
