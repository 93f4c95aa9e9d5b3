#include "transport/rdma/connector.h"

#include <utility>

namespace peercache::rdma {

Connector::~Connector() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::future<Status> Connector::Do(Work work) {
  std::packaged_task<Status()> task(std::move(work));
  auto result = task.get_future();
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(task));
    ++taken_;
  }
  changed_.notify_all();
  return result;
}

void Connector::Drain() {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = taken_;
  changed_.wait(lock, [&] { return done_ >= wanted; });
}

void Connector::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    auto task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    task();
    // With what it holds, before anybody is told that it is done.
    task = {};
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace peercache::rdma
