#include "node/upkeep.h"

#include <algorithm>

namespace peercache {
namespace {

// Room is made when less than 1/8 of the pool is free or resting, up to 3/16: evicted slots rest
// for a lease before they are free, so eviction has to run ahead of the sets.
constexpr size_t LowWater(size_t capacity) { return capacity / 8; }
constexpr size_t HighWater(size_t capacity) { return capacity / 16 * 3; }

}  // namespace

bool Room::WaitForRoom(size_t length, TimePoint deadline) {
  std::unique_lock lock(mutex_);
  wanted_length_ = std::max(wanted_length_, length);
  const uint64_t before = rounds_;
  wanted_.notify_one();
  return freed_.wait_until(lock, deadline, [&] { return rounds_ != before || stop_; }) && !stop_;
}

Upkeep::Upkeep(UpkeepOptions options, Pool* pool, Shard* shard, Publisher* publisher,
               const Views* views, Room* room, std::function<void(const View&)> synced)
    : options_(options),
      pool_(pool),
      shard_(shard),
      publisher_(publisher),
      views_(views),
      room_(room),
      synced_(std::move(synced)),
      room_thread_([this] { RunRoom(); }),
      directory_thread_([this] { RunDirectory(); }) {}

Upkeep::~Upkeep() {
  stop_ = true;
  {
    std::lock_guard lock(room_->mutex_);
    room_->stop_ = true;
  }
  room_->wanted_.notify_all();
  room_->freed_.notify_all();
  room_thread_.join();
  directory_thread_.join();
}

void Upkeep::RunRoom() {
  while (!stop_) {
    size_t wanted = 0;
    {
      std::unique_lock lock(room_->mutex_);
      room_->wanted_.wait_for(lock, options_.tick,
                              [&] { return room_->wanted_length_ != 0 || room_->stop_; });
      wanted = std::exchange(room_->wanted_length_, 0);
    }
    std::vector<Victim> cleared;
    {
      std::lock_guard lock(cleared_mutex_);
      cleared.swap(cleared_);
    }
    if (const size_t count = cleared.size(); count > 0) {
      Retire(std::move(cleared));
      std::lock_guard lock(cleared_mutex_);
      unwithdrawn_ -= count;
    }
    MakeRoom(wanted);
    if (pool_->Reclaim(Clock::now()) > 0) {
      {
        std::lock_guard lock(room_->mutex_);
        ++room_->rounds_;
      }
      room_->freed_.notify_all();
    }
    // Waiters whose slots still rest are asked again by their own deadline, not by spinning here.
    if (wanted != 0) std::this_thread::sleep_for(milliseconds(1));
  }
}

void Upkeep::MakeRoom(size_t wanted_length) {
  const PoolStats stats = pool_->stats();
  const size_t coming = stats.free_bytes + stats.quarantined_bytes;
  size_t bytes = 0;
  if (coming < LowWater(stats.capacity_bytes)) bytes = HighWater(stats.capacity_bytes) - coming;
  size_t length = wanted_length;
  // Somebody waits for a size class whose slots are all taken, although other classes have room.
  if (wanted_length != 0 && pool_->FreeBytes(wanted_length) < wanted_length) {
    bytes = std::max(bytes, std::max(wanted_length, stats.capacity_bytes / 32));
  }
  if (bytes == 0) return;
  if (length == 0) length = 1;
  Retire(pool_->TakeVictims(bytes, length));
}

void Upkeep::Retire(std::vector<Victim> victims) {
  if (victims.empty()) return;
  std::vector<TimePoint> reuse_at(victims.size());
  publisher_->Withdraw(victims, reuse_at);
  for (size_t i = 0; i < victims.size(); ++i) pool_->Quarantine(victims[i], reuse_at[i]);
}

size_t Upkeep::Clear(uint64_t tag) {
  size_t busy = 0;
  auto victims = pool_->TakeTagged(tag, &busy);
  std::lock_guard lock(cleared_mutex_);
  cleared_.insert(cleared_.end(), victims.begin(), victims.end());
  unwithdrawn_ += victims.size();
  return busy + unwithdrawn_;
}

void Upkeep::RunDirectory() {
  TimePoint next_keepalive{}, next_expire{};
  while (!stop_) {
    const TimePoint now = Clock::now();
    if (now >= next_keepalive) {
      publisher_->KeepAlive();
      next_keepalive = now + options_.keepalive;
    }
    if (now >= next_expire) {
      shard_->Expire(now);
      next_expire = now + std::chrono::seconds(1);
    }
    if (const auto view = views_->Get(); view != nullptr && publisher_->Repair(view)) {
      synced_(*view);
    }
    std::this_thread::sleep_for(options_.tick);
  }
}

}  // namespace peercache
