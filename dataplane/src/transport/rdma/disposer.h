// Disposer: destroys queue pairs of a rail, and gives up its registrations, in a thread of its own.
// Destroying a queue pair waits until the device and the network below it have let go of its
// packets, and where a path has died that can be seconds; giving up a registration unlocks its
// memory, page by page: neither calls nor the threads that serve peers wait for that.
//
//   disposer.Take(std::move(remains));      // gone soon
//   disposer.Drain();                       // gone: all that was taken so far
//
// What is taken must be stopped (StopQueuePair), and nothing of it may be under way any more.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/rdma/device_context.h"
#include "transport/rdma/verbs.h"

namespace peercache::rdma {

class Disposer {
 public:
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

  Disposer() : thread_([this] { Run(); }) {}
  // Drains.
  ~Disposer();
  Disposer(const Disposer&) = delete;
  Disposer& operator=(const Disposer&) = delete;

  void Take(Remains remains);
  void Drain();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Remains> waiting_;
  uint64_t taken_ = 0, gone_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace peercache::rdma
