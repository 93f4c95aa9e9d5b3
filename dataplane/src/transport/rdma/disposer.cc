#include "transport/rdma/disposer.h"

#include <utility>

namespace peercache::rdma {

Disposer::~Disposer() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Disposer::Take(Remains remains) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(remains));
    ++taken_;
  }
  changed_.notify_all();
}

void Disposer::Drain() {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = taken_;
  changed_.wait(lock, [&] { return gone_ >= wanted; });
}

void Disposer::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    auto batch = std::exchange(waiting_, {});
    lock.unlock();
    const size_t count = batch.size();
    batch.clear();
    lock.lock();
    gone_ += count;
    changed_.notify_all();
  }
}

}  // namespace peercache::rdma
