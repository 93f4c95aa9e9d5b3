#include "transport/rdma/budget.h"

#include <sys/eventfd.h>

#include <algorithm>

namespace peercache::rdma {

void RailBudget::NotePeak(int64_t free) {
  const auto taken = static_cast<uint64_t>(std::max<int64_t>(bytes_ - free, 0));
  uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (taken > peak && !peak_.compare_exchange_weak(peak, taken, std::memory_order_relaxed)) {
  }
}

bool RailBudget::TakeFree(uint64_t bytes, int64_t left) {
  const auto wanted = static_cast<int64_t>(bytes);
  int64_t free = free_.load();
  do {
    if (free < wanted + left && !(left > 0 && free == bytes_)) return false;
  } while (!free_.compare_exchange_weak(free, free - wanted));
  NotePeak(free - wanted);
  return true;
}

bool RailBudget::TryTake(uint64_t bytes) { return in_line_.load() == 0 && TakeFree(bytes); }

bool RailBudget::TryTakeBehind(uint64_t bytes) {
  return in_line_.load() == 0 && TakeFree(bytes, bytes_ / 2);
}

void RailBudget::Take(uint64_t bytes) {
  const auto wanted = static_cast<int64_t>(bytes);
  NotePeak(free_.fetch_sub(wanted) - wanted);
}

// Order: free_ grows before in_line_ is read, and in_line_ grows before free_ is read
// (StandInLine). One of the two sees the other, so nobody is left in line beside free bytes.
void RailBudget::Give(uint64_t bytes) {
  if (bytes == 0) return;
  free_.fetch_add(static_cast<int64_t>(bytes));
  if (in_line_.load() == 0) return;
  std::lock_guard lock(mutex_);
  Serve();
}

void RailBudget::Serve() {
  while (!line_.empty() && TakeFree(line_.front()->bytes_)) {
    Place* const place = line_.front();
    line_.pop_front();
    --in_line_;
    if (place->event_ >= 0) eventfd_write(place->event_, 1);
    place->granted_.store(true, std::memory_order_release);
  }
}

void RailBudget::StandInLine(Place* place, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  place->budget_ = this;
  place->bytes_ = bytes;
  place->event_ = -1;
  line_.push_back(place);
  ++in_line_;
  Serve();
}

void RailBudget::Place::Use() {
  budget_ = nullptr;
  granted_.store(false, std::memory_order_relaxed);
}

void RailBudget::Place::Leave() {
  if (budget_ == nullptr) return;
  RailBudget* const budget = budget_;
  {
    std::lock_guard lock(budget->mutex_);
    const auto at = std::find(budget->line_.begin(), budget->line_.end(), this);
    if (at != budget->line_.end()) {
      budget->line_.erase(at);
      --budget->in_line_;
      budget->Serve();  // who stood behind may want less
    }
  }
  const bool granted = this->granted();
  Use();
  if (granted) budget->Give(bytes_);
}

bool RailBudget::Place::WakeBy(int event) {
  if (budget_ == nullptr) return true;
  std::lock_guard lock(budget_->mutex_);
  event_ = event;
  return !granted();
}

}  // namespace peercache::rdma
