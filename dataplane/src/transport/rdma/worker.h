// Worker: a thread that does what it is given, one after the other, while nobody waits.
//
//   std::future<Status> connected = worker.Do([queue, peer] { return queue->Connect(peer); });
//
// A rail has two (rail.h): one connects queue pairs, and one destroys what is left of them.
//
// What the work needs belongs to the work, so that whoever has no more patience may go: let it hold
// a weak_ptr, and what nobody waits for any more is passed over.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/status.h"

namespace peercache::rdma {

class Worker {
 public:
  Worker() : thread_([this] { Run(); }) {}
  // Does what it was given first.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Calls work() -> Status, in the order of the calls, and destroys it, both in the worker's
  // thread. It may hold what can only be moved, and must not throw. Its result may be left alone.
  template <typename F>
  std::future<Status> Do(F&& work) {
    return Take(std::make_unique<WorkOf<std::decay_t<F>>>(std::forward<F>(work)));
  }
  // Until all that was given so far is done and destroyed.
  void Drain();

 private:
  // Not a packaged_task: a future shares its function, and whoever drops the future last would
  // destroy that.
  struct Work {
    virtual ~Work() = default;
    virtual Status Call() = 0;
  };
  template <typename F>
  struct WorkOf final : Work {
    explicit WorkOf(F work) : function(std::move(work)) {}
    Status Call() override { return function(); }
    F function;
  };
  struct Task {
    std::unique_ptr<Work> work;
    std::promise<Status> result;
  };
  std::future<Status> Take(std::unique_ptr<Work> work);
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  uint64_t taken_ = 0, done_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace peercache::rdma
