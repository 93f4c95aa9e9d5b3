#include "base/crew.h"

#include <spdlog/spdlog.h>

#include "base/thread.h"

namespace peercache {

Crew::Crew(unsigned helpers) {
  for (unsigned i = 0; i < helpers; ++i) {
    auto helper = StartThread([this] { Help(); });
    if (!helper.ok()) {
      spdlog::warn("{} of {} threads help to copy: {}", i, helpers, helper.status().message());
      return;
    }
    helpers_.push_back(std::move(*helper));
  }
}

Crew::~Crew() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  called_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

size_t Crew::Hands() {
  const std::unique_lock free(busy_, std::try_to_lock);
  return free ? 1 + helpers_.size() : 1;
}

void Crew::Work(const Job& job) {
  for (size_t i = 0; (i = next_.fetch_add(1, std::memory_order_relaxed)) < job.count;)
    job.call(job.context, i);
}

void Crew::Run(const Job& job) {
  std::unique_lock mine(busy_, std::try_to_lock);
  if (!mine || helpers_.empty() || job.count < 2) {
    for (size_t i = 0; i < job.count; ++i) job.call(job.context, i);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    job_ = job;
    ++generation_;
    next_.store(0, std::memory_order_relaxed);
  }
  called_.notify_all();
  Work(job);
  // Helpers that have not come by now need not: every index is taken.
  std::unique_lock lock(mutex_);
  job_.count = 0;
  left_.wait(lock, [this] { return joined_ == 0; });
}

void Crew::Help() {
  size_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    called_.wait(lock, [&] { return stop_ || (job_.count > 0 && generation_ != seen); });
    if (stop_) return;
    seen = generation_;
    const Job job = job_;
    ++joined_;
    lock.unlock();
    Work(job);
    lock.lock();
    if (--joined_ == 0) left_.notify_one();
  }
}

}  // namespace peercache
