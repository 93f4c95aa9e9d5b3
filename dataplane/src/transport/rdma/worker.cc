#include "transport/rdma/worker.h"

namespace peercache::rdma {

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::future<Status> Worker::Take(std::unique_ptr<Work> work) {
  Task task{.work = std::move(work), .result = {}};
  auto result = task.result.get_future();
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(task));
    ++taken_;
  }
  changed_.notify_all();
  return result;
}

void Worker::Drain() {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = taken_;
  changed_.wait(lock, [&] { return done_ >= wanted; });
}

void Worker::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    task.result.set_value(task.work->Call());
    // With what it holds, before Drain is told that it is done.
    task.work.reset();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace peercache::rdma
