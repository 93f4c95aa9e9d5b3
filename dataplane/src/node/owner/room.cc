#include "node/owner/room.h"

#include <algorithm>
#include <utility>

#include "pool/size_class.h"

namespace peercache {

namespace {

// Sets run ahead of their pace by up to this much, so that most need not sleep for a page.
constexpr Duration kAhead = milliseconds(2);

}  // namespace

Result<Reservation> Room::Reserve(size_t length, TimePoint deadline, TenantNumber tenant,
                                  For what) {
  if (what == For::kSet && pace_.load(std::memory_order_relaxed) != 0 && !Pace(length, deadline)) {
    Refused(length);
    return ResourceExhausted("the pool is full and sets are faster than evicted slots come back");
  }
  const auto full = [](const Result<Reservation>& reservation) {
    return !reservation.ok() && reservation.status().code() == Code::kResourceExhausted;
  };
  auto reservation = pool_->Reserve(length);
  while (full(reservation) && WaitForSlot(length, deadline, tenant, what))
    reservation = pool_->Reserve(length);
  if (full(reservation)) Refused(length);
  if (reservation.ok()) Took(length);
  return reservation;
}

void Room::ReserveFree(std::span<const size_t> lengths, std::span<Reservation> reservations,
                       For what) {
  if (what == For::kSet && pace_.load(std::memory_order_relaxed) != 0) return;
  pool_->ReserveMany(lengths, reservations);
  size_t taken = 0;
  for (const Reservation& reservation : reservations) taken += reservation.payload().size();
  Took(taken);
}

void Room::Took(size_t bytes) {
  const auto taken = static_cast<int64_t>(bytes);
  const int64_t before = slack_.fetch_sub(taken, std::memory_order_relaxed);
  if (before <= 0 || before > taken) return;  // whoever uses up the last of it tells
  {
    std::lock_guard lock(mutex_);
    slack_is_used_ = true;
  }
  wanted_.notify_one();
}

void Room::SetSlack(size_t bytes) {
  slack_.store(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

void Room::Refused(size_t length) {
  std::lock_guard lock(mutex_);
  wishes_[PayloadBytes(SizeClassOf(length))].refused += length;
}

bool Room::Pace(size_t bytes, TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const double pace = pace_.load(std::memory_order_relaxed);
  if (pace == 0) return true;
  const TimePoint start = Clock::now();
  const TimePoint turn = std::max(paced_until_, start);
  if (turn - kAhead > deadline) return false;
  const auto takes = std::chrono::duration<double>(static_cast<double>(bytes) / pace);
  paced_until_ = turn + std::chrono::duration_cast<Duration>(takes);
  if (turn - kAhead <= start) return true;
  paced_.fetch_add(1, std::memory_order_relaxed);
  pace_changed_.wait_until(lock, turn - kAhead,
                           [&] { return stop_ || pace_.load(std::memory_order_relaxed) == 0; });
  CountStall(start);
  return true;
}

bool Room::WaitForSlot(size_t length, TimePoint deadline, TenantNumber tenant, For what) {
  const TimePoint start = Clock::now();
  const bool below_share = pool_->Spared(tenant);
  if (what == For::kSet) waits_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  wishes_[PayloadBytes(SizeClassOf(length))].below_share |= below_share;
  wanted_.notify_one();
  const uint64_t before = rounds_, mine = asked_ + 1;
  while (!stop_ && rounds_ == before) {
    const bool tried = tried_ >= mine;
    lock.unlock();
    const TimePoint now = Clock::now();
    const bool reclaimed = pool_->Reclaim(now) > 0;
    const TimePoint next = pool_->NextReuse();
    lock.lock();
    if (reclaimed) {
      ++rounds_;
      freed_.notify_all();
    } else if (now >= deadline) {
      break;
    } else if (tried && next > deadline) {
      if (what == For::kSet) hopeless_.fetch_add(1, std::memory_order_relaxed);
      break;
    } else {
      freed_.wait_until(lock, std::min(next, deadline),
                        [&] { return rounds_ != before || stop_ || (!tried && tried_ >= mine); });
    }
  }
  if (what == For::kSet) CountStall(start);
  return rounds_ != before && !stop_;
}

void Room::CountStall(TimePoint start) {
  stalled_nanos_.fetch_add((Clock::now() - start).count(), std::memory_order_relaxed);
}

RoomStats Room::stats() const {
  RoomStats stats;
  stats.paced = paced_.load(std::memory_order_relaxed);
  stats.waits = waits_.load(std::memory_order_relaxed);
  stats.hopeless = hopeless_.load(std::memory_order_relaxed);
  stats.stalled = Duration(stalled_nanos_.load(std::memory_order_relaxed));
  return stats;
}

void Room::SetPace(double bytes_per_second) {
  const double before = pace_.load(std::memory_order_relaxed);
  if (before == bytes_per_second) return;
  {
    std::lock_guard lock(mutex_);
    // What was admitted ahead takes its time at the new pace.
    const TimePoint now = Clock::now();
    if (bytes_per_second == 0)
      paced_until_ = {};
    else if (before != 0 && paced_until_ > now)
      paced_until_ = now + std::chrono::duration_cast<Duration>((paced_until_ - now) * before /
                                                                bytes_per_second);
    pace_.store(bytes_per_second, std::memory_order_relaxed);
  }
  if (bytes_per_second == 0) pace_changed_.notify_all();
}

UnmetWishes Room::AwaitWishes(Duration limit) {
  const TimePoint until = std::min(Clock::now() + limit, pool_->NextReuse());
  std::unique_lock lock(mutex_);
  if (tried_ != asked_) {
    tried_ = asked_;
    freed_.notify_all();
  }
  wanted_.wait_until(lock, until, [&] { return !wishes_.empty() || slack_is_used_ || stop_; });
  slack_is_used_ = false;
  if (!wishes_.empty()) ++asked_;
  return std::exchange(wishes_, {});
}

void Room::Freed() {
  {
    std::lock_guard lock(mutex_);
    ++rounds_;
  }
  freed_.notify_all();
}

void Room::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_all();
  freed_.notify_all();
  pace_changed_.notify_all();
}

}  // namespace peercache
