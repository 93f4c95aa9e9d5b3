// Views: the node's current View, replaced as a whole.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "membership/view.h"

namespace peercache {

class Views {
 public:
  // Null until the first answer of a discovery host.
  std::shared_ptr<const View> Get() const {
    std::lock_guard lock(mutex_);
    return view_;
  }
  void Set(std::shared_ptr<const View> view) {
    {
      std::lock_guard lock(mutex_);
      view_ = std::move(view);
    }
    changed_.notify_all();
  }
  // Waits for the first view; null when there is none by the deadline.
  std::shared_ptr<const View> Wait(TimePoint deadline) const {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return view_ != nullptr; });
    return view_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::shared_ptr<const View> view_;
};

}  // namespace peercache
