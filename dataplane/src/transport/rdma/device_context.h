// DeviceContext: an RDMA device that is open, with what a rail makes everything else from. One that
// has failed, or was taken away, is of no use ever again: the rail opens the device anew. What was
// made from a context holds it, so that it is closed after the last of that is gone.
//
//   auto device = DeviceContext::Open("mlx5_0", 1);
//   CqHandle cq(device->verbs->create_cq(device->context.get(), ...));
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "transport/rdma/verbs.h"

namespace peercache::rdma {

struct DeviceContext {
  static Result<std::shared_ptr<DeviceContext>> Open(const std::string& name, uint8_t port);

  // Whether it answers no calls any more, as a device that was taken away. Asks it.
  bool Gone() const;

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
};

// What the kernel answers for a device that was taken away.
bool IsGone(int error);

}  // namespace peercache::rdma
