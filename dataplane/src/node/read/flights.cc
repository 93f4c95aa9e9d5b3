#include "node/read/flights.h"

namespace peercache {

// The bucket of the key, or the free one where it would be.
Flights::Bucket* Flights::FindBucket(const Key& key) {
  size_t at = hash_(key) % kBuckets;
  while (buckets_[at].call != nullptr && !(buckets_[at].key == key)) at = (at + 1) % kBuckets;
  return &buckets_[at];
}

void Flights::Erase(const Key& key, const Call* call) {
  Bucket* bucket = FindBucket(key);
  if (bucket->call != call) return;  // this page is not in the table (see Join)
  // Shift back what follows, so that no probe meets a gap before its key.
  auto hole = static_cast<size_t>(bucket - buckets_.data());
  for (size_t at = (hole + 1) % kBuckets; buckets_[at].call != nullptr; at = (at + 1) % kBuckets) {
    const size_t home = hash_(buckets_[at].key) % kBuckets;
    if ((at - home) % kBuckets < (at - hole) % kBuckets) continue;
    buckets_[hole] = buckets_[at];
    hole = at;
  }
  buckets_[hole].call = nullptr;
  --used_;
}

void Flights::Join(std::span<const Key> keys, std::span<const size_t> wanted, Call* call,
                   std::vector<size_t>* led, std::vector<Followed>* followed) {
  std::lock_guard lock(mutex_);
  for (const size_t page : wanted) {
    Bucket* bucket = FindBucket(keys[page]);
    const bool taken = bucket->call != nullptr;
    if (taken && bucket->call->epoch_ == call->epoch_) {
      std::lock_guard leader_lock(bucket->call->mutex_);
      ++bucket->call->followers_;
      followed->push_back({bucket->call->shared_from_this(), bucket->page, page});
      continue;
    }
    led->push_back(page);
    if (taken || used_ >= kBuckets / 2) continue;
    *bucket = {call, page, keys[page]};
    ++used_;
  }
}

void Flights::Land(Call* call, std::span<const uint8_t> ok) {
  {
    std::lock_guard lock(call->mutex_);
    call->landed_ = true;
    call->ok_ = ok;
  }
  call->changed_.notify_all();
}

bool Flights::Copy(const Followed& followed, const Destinations& to, TimePoint deadline) {
  Call& leader = *followed.leader;
  bool there = false;
  {
    std::unique_lock lock(leader.mutex_);
    there = leader.changed_.wait_until(lock, deadline, [&] { return leader.landed_; }) &&
            !leader.left_ && leader.ok_[followed.leader_page] != 0;
    if (there) ++leader.copying_;
  }
  bool copied = false;
  if (there) {
    const Permit::Use use(to.permit);
    // The leader's engine may have taken its pages back while they were copied.
    copied = use && GuardedMove(to.Of(followed.page), leader.to_.Of(followed.leader_page)) &&
             !leader.to_.revoked();
  }
  std::lock_guard lock(leader.mutex_);
  if (there) --leader.copying_;
  --leader.followers_;
  if (leader.followers_ == 0 || leader.copying_ == 0) leader.changed_.notify_all();
  return copied;
}

void Flights::Leave(std::span<const Key> keys, std::span<const size_t> led, Call* call,
                    TimePoint deadline) {
  {
    std::lock_guard lock(mutex_);
    for (const size_t page : led) Erase(keys[page], call);
  }
  std::unique_lock lock(call->mutex_);
  call->changed_.wait_until(lock, deadline, [&] { return call->followers_ == 0; });
  call->left_ = true;
  call->changed_.wait(lock, [&] { return call->copying_ == 0; });
}

}  // namespace peercache
