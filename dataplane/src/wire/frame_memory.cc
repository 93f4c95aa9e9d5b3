#include "wire/frame_memory.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

namespace peercache {

bool FrameMemory::Fits(const Hold& hold) const {
  const uint64_t limit = hold.bytes_ > kLarge ? limit_ - std::min(limit_, kForSmaller) : limit_;
  return held_.load(std::memory_order_relaxed) + hold.bytes_ <= limit;
}

void FrameMemory::Grant(Hold* hold, TimePoint now) {
  hold->granted_at_ = now;
  const uint64_t held = held_.load(std::memory_order_relaxed) + hold->bytes_;
  held_.store(held, std::memory_order_relaxed);
  most_ = std::max(most_, held);
  hold->state_.store(Hold::State::kGranted, std::memory_order_release);
}

void FrameMemory::GrantWaiting(TimePoint now) {
  for (std::list<Hold*>* queue : {&small_, &large_}) {
    while (!queue->empty() && Fits(*queue->front())) {
      Grant(queue->front(), now);
      holders_.splice(holders_.end(), *queue, queue->begin());
      granted_.notify_all();
    }
  }
}

void FrameMemory::LookRound(TimePoint now) {
  std::lock_guard lock(mutex_);
  if (small_.empty() && large_.empty() && !over()) return;
  for (Hold* hold : holders_) {
    if (now < hold->granted_at_ + kGiveWay) return;
    if (hold->whole_ || hold->gives_way_) continue;
    hold->gives_way_ = true;
    ++cut_off_;
    shutdown(hold->socket_, SHUT_RDWR);
  }
}

FrameMemoryStats FrameMemory::stats() const {
  std::lock_guard lock(mutex_);
  return {limit_,  held_.load(std::memory_order_relaxed),
          most_,   small_.size() + large_.size(),
          waited_, cut_off_};
}

void FrameMemory::Hold::Begin(size_t bytes, int socket, std::list<Hold*>::iterator here) {
  bytes_ = bytes;
  socket_ = socket;
  here_ = here;
  whole_ = gives_way_ = false;
}

bool FrameMemory::Hold::Ask(size_t bytes, int socket) {
  if (memory_ == nullptr) {
    state_ = State::kGranted;
    return true;
  }
  std::list<Hold*> self{this};
  std::lock_guard lock(memory_->mutex_);
  Begin(bytes, socket, self.begin());
  std::list<Hold*>& queue = memory_->Queue(*this);
  if (queue.empty() && memory_->Fits(*this)) {
    memory_->Grant(this, Clock::now());
    memory_->holders_.splice(memory_->holders_.end(), self);
    return true;
  }
  ++memory_->waited_;
  state_ = State::kWaits;
  queue.splice(queue.end(), self);
  return false;
}

void FrameMemory::Hold::Take(size_t bytes, int socket) {
  if (memory_ == nullptr) return;
  std::list<Hold*> self{this};
  std::lock_guard lock(memory_->mutex_);
  Begin(bytes, socket, self.begin());
  memory_->Grant(this, Clock::now());
  memory_->holders_.splice(memory_->holders_.end(), self);
}

void FrameMemory::Hold::Whole() {
  if (memory_ == nullptr || idle()) return;
  std::lock_guard lock(memory_->mutex_);
  whole_ = true;
}

void FrameMemory::Hold::Release() {
  if (idle()) return;
  if (memory_ != nullptr) {
    std::lock_guard lock(memory_->mutex_);
    if (granted()) {
      memory_->held_.fetch_sub(bytes_, std::memory_order_relaxed);
      memory_->holders_.erase(here_);
    } else {
      memory_->Queue(*this).erase(here_);
    }
    memory_->GrantWaiting(Clock::now());
  }
  state_ = State::kIdle;
}

bool FrameMemory::Hold::Await(TimePoint deadline) {
  while (!granted()) {
    const TimePoint now = Clock::now();
    if (now >= deadline) return false;
    // Whoever waits reads nothing, so it would not hear of the end of its connection.
    pollfd entry{socket_, POLLRDHUP, 0};
    if (poll(&entry, 1, 0) > 0) return false;
    memory_->LookRound(now);
    std::unique_lock lock(memory_->mutex_);
    memory_->granted_.wait_for(lock, std::min<Duration>(kLookAsleep, deadline - now),
                               [this] { return granted(); });
  }
  return true;
}

}  // namespace peercache
