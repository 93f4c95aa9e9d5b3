// Connector: connects queue pairs of a rail, in a thread of its own. Connecting one looks up where
// the peer's address leads, and for an address that nobody answers to the kernel waits about a
// second: neither calls nor the threads that serve peers wait for it.
//
//   std::future<Status> connected = connector.Do([queue, peer] { return queue->Connect(peer); });
//
// What is done belongs to the work, so that whoever has no more patience may go: let it hold a
// weak_ptr, and what nobody waits for any more is passed over.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace peercache::rdma {

class Connector {
 public:
  using Work = std::function<Status()>;

  Connector() : thread_([this] { Run(); }) {}
  // Does what it was given first.
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  // In the order of the calls; must not throw. Its result may be left alone.
  std::future<Status> Do(Work work);
  // Until all that was given so far is done and forgotten.
  void Drain();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<Status()>> waiting_;
  uint64_t taken_ = 0, done_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace peercache::rdma
