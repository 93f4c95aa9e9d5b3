// Remains: what is left of a queue pair, or of a registration, when nobody uses it any more
// (Rail::Dispose). It must be stopped (StopQueuePair), and nothing of it may be under way.
#pragma once

#include <memory>

#include "transport/rdma/device_context.h"
#include "transport/rdma/verbs.h"

namespace peercache::rdma {

// Destroyed from the last to the first: a queue pair before its completion queue, and that before
// its channel. `keeper`, if any, goes when all of it is gone, and the last of what a device made
// before the device.
struct Remains {
  std::shared_ptr<const DeviceContext> device{};
  std::shared_ptr<const void> keeper{};
  CompChannelHandle channel{};
  CqHandle cq{};
  QpHandle qp{};
};

}  // namespace peercache::rdma
