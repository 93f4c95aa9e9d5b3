#include "node/owner/upkeep.h"

#include <algorithm>
#include <utility>

#include "directory/fence.h"

namespace peercache {
namespace {

// Pages in one withdrawal: bounds the message and the time until the first slots are on their way.
constexpr size_t kRetireBatch = 1024;
// When a set waits for a size that has no slots at all, this share of the pool is made over to it.
constexpr size_t kNewSizeShare = 32;
// Part of the reserve that sets may take before more room is made: they come for gigabytes a
// second, and find free slots all the same.
constexpr size_t kSlackShare = 4;
// For the records of replicas that have been promoted since the last look.
constexpr Duration kPublishLimit = milliseconds(1000);

}  // namespace

Upkeep::Upkeep(UpkeepOptions options, Pool* pool, Replicas* replicas, Shard* shard,
               Publisher* publisher, const Views* views, Room* room,
               std::function<void(const View&)> synced, TierBehind* behind)
    : options_(options),
      pool_(pool),
      replicas_(replicas),
      shard_(shard),
      publisher_(publisher),
      views_(views),
      room_(room),
      synced_(std::move(synced)),
      behind_(behind),
      plan_(options.watermarks, Padded(options.lease) + options.tick),
      room_thread_([this] { RunRoom(); }),
      directory_thread_([this] { RunDirectory(); }) {}

Upkeep::~Upkeep() {
  stop_ = true;
  room_->Stop();
  room_thread_.join();
  if (directory_thread_.joinable()) directory_thread_.join();
}

void Upkeep::Disown() {
  disown_ = true;
  directory_thread_.join();
  publisher_->DisownAll();
}

void Upkeep::RunRoom() {
  while (!stop_) {
    const UnmetWishes wishes = room_->AwaitWishes(options_.tick);
    RetireCleared();
    MakeRoom(wishes);
    if (const size_t surplus = replicas_->Surplus(Clock::now()); surplus > 0) {
      const std::vector<Victim> oldest = pool_->TakeReplicas(surplus);
      if (!oldest.empty()) (void)Retire(oldest);
    }
    ReclaimFreed();
    // Waiters whose slots still rest look again by themselves; they must not keep this busy.
    const bool freed = std::exchange(freed_, false);
    if (!wishes.empty() && !freed) std::this_thread::sleep_for(milliseconds(1));
  }
}

void Upkeep::MakeRoom(const UnmetWishes& wishes) {
  for (const auto& [length, unmet] : wishes) plan_.Unmet(length, unmet.refused);
  const PoolUse use = pool_->use();
  for (const RoomPlan::Eviction& eviction : plan_.Decide(Clock::now(), use))
    Evict(eviction.bytes, eviction.length);
  reserve_bytes_ = plan_.target_bytes();
  room_->SetSlack(plan_.target_bytes() / kSlackShare);
  room_->SetPace(plan_.Pace(pool_->use()));
  // A size that has no slots and of which the plan knows nothing yet, or whose pages are too long
  // for what others leave over.
  for (const auto& [length, unmet] : wishes) {
    if (pool_->FreeBytes(length) < length)
      Evict(std::max(length, use.capacity_bytes / kNewSizeShare), length);
    // Nobody who has its share has anything that would make room.
    if (unmet.below_share && pool_->FreeBytes(length) < length) Evict(length, length, false);
  }
}

void Upkeep::Evict(size_t bytes, size_t length, bool spare) {
  const TimePoint chosen = Clock::now();
  const std::vector<Victim> victims = pool_->TakeVictims(bytes, length, spare);
  if (!victims.empty()) plan_.Returning(Retire(victims) - chosen + options_.tick);
}

void Upkeep::RetireCleared() {
  std::vector<Victim> cleared;
  {
    std::lock_guard lock(cleared_mutex_);
    cleared.swap(cleared_);
  }
  if (cleared.empty()) return;
  (void)Retire(cleared);
  std::lock_guard lock(cleared_mutex_);
  unwithdrawn_ -= cleared.size();
}

TimePoint Upkeep::Retire(std::span<const Victim> victims) {
  const TimePoint start = Clock::now();
  Duration after{};  // of all together
  std::vector<TimePoint> reuse_at;
  for (size_t at = 0; at < victims.size(); at += kRetireBatch) {
    const auto batch = victims.subspan(at, std::min(kRetireBatch, victims.size() - at));
    reuse_at.assign(batch.size(), {});
    publisher_->Withdraw(batch, reuse_at);
    if (behind_ != nullptr) behind_->Evicted(batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      pool_->Quarantine(batch[i], reuse_at[i]);
      after += std::max(reuse_at[i], start) - start;
    }
    ReclaimFreed();  // most of them at once, if nobody was told of their pages lately
  }
  return start + after / static_cast<int64_t>(victims.size());
}

void Upkeep::ReclaimFreed() {
  if (pool_->Reclaim(Clock::now()) == 0) return;
  freed_ = true;
  room_->Freed();
}

size_t Upkeep::Clear(TagRange tags) {
  size_t busy = 0;
  auto victims = pool_->TakeTagged(tags, &busy);
  std::lock_guard lock(cleared_mutex_);
  cleared_.insert(cleared_.end(), victims.begin(), victims.end());
  unwithdrawn_ += victims.size();
  return busy + unwithdrawn_;
}

void Upkeep::PublishPromoted() {
  std::vector<HeldPage> pages;
  for (PagePin& pin : replicas_->TakePromoted()) pages.push_back(publisher_->Held(std::move(pin)));
  if (pages.empty()) return;
  // What is not acknowledged serves this node's engines; repair tells the shard when it answers.
  std::vector<uint8_t> ok(pages.size());
  publisher_->Publish(pages, ok, Clock::now() + kPublishLimit);
}

void Upkeep::RunDirectory() {
  TimePoint next_expire{};
  while (!stop_ && !disown_) {
    const TimePoint now = Clock::now();
    publisher_->KeepAliveIfDue();
    if (now >= next_expire) {
      shard_->Expire(now);
      next_expire = now + std::chrono::seconds(1);
    }
    PublishPromoted();
    if (behind_ != nullptr) behind_->TellDirectory();
    if (const auto view = views_->Get(); view != nullptr && publisher_->Repair(*view)) {
      synced_(*view);
    }
    if (!publisher_->repairing()) std::this_thread::sleep_for(options_.tick);
  }
}

}  // namespace peercache
