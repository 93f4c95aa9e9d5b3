#include "node/disk/disk_records.h"

#include <algorithm>
#include <utility>

#include "node/disk/disk_holdings.h"
#include "node/disk/disk_note.h"

namespace peercache {
namespace {

constexpr size_t kBatch = 1024;  // as many as one withdrawal of the pool
// A record that its shard has not taken, because it is full or does not answer, is sent again.
constexpr Duration kAgain = std::chrono::seconds(1);
// For the directory's thread, by who drops pages.
constexpr Duration kLongestWait = std::chrono::seconds(1);

}  // namespace

void DiskRecords::Start(disk::DiskTier* tier, Holdings* holdings, Loader* loader, Pool* pool) {
  tier_ = tier;
  holdings_ = holdings;
  loader_ = loader;
  pool_ = pool;
}

void DiskRecords::Enqueue(const Key& key) {
  missed_ |= candidates_.size() >= kMostQueued;
  if (candidates_.size() < kMostQueued) candidates_.push_back(key);
}

void DiskRecords::Evicted(std::span<const Victim> victims) {
  std::lock_guard lock(mutex_);
  for (const Victim& victim : victims) Enqueue(victim.key);
}

void DiskRecords::Stored(std::span<const disk::DiskPage> pages) {
  std::lock_guard lock(mutex_);
  for (const disk::DiskPage& page : pages) Enqueue(page.key);
}

void DiskRecords::Dropped(std::span<const disk::DiskPage> pages) {
  std::lock_guard lock(mutex_);
  for (const disk::DiskPage& page : pages) {
    if (page.note == 0) continue;
    gone_.push_back(page);
    ++dropped_;
  }
}

// A clear or a drive that fails drops millions, faster than shards are told.
void DiskRecords::AwaitTold() {
  std::unique_lock lock(mutex_);
  drained_.wait_for(lock, kLongestWait, [this] { return gone_.size() < kMostQueued; });
}

void DiskRecords::Back() {
  std::lock_guard lock(mutex_);
  missed_ = true;
}

void DiskRecords::Gone(std::span<const disk::DiskPage> pages) {
  std::lock_guard lock(mutex_);
  gone_.insert(gone_.end(), pages.begin(), pages.end());
  dropped_ += pages.size();
}

void DiskRecords::TellDirectory() {
  std::vector<Key> candidates;
  std::vector<PageAt> loaded = loader_->TakeLoaded();
  std::vector<disk::DiskPage> gone;
  {
    std::lock_guard lock(mutex_);
    missed_ |= loaded.size() >= Loader::kMostLoaded;
    if (Clock::now() >= again_at_) {
      for (const Key& key : refused_) Enqueue(key);
      refused_.clear();
      loaded.insert(loaded.end(), unpublished_.begin(), unpublished_.end());
      unpublished_.clear();
      again_at_ = Clock::now() + kAgain;
    }
    candidates.swap(candidates_);
    gone.swap(gone_);
    if (std::exchange(missed_, false)) publisher_->RepairAgain();
  }
  drained_.notify_all();
  for (std::span<const PageAt> rest = loaded; !rest.empty();) {
    const auto batch = rest.first(std::min(rest.size(), kBatch));
    PublishLoaded(batch);
    publisher_->KeepAliveIfDue();
    rest = rest.subspan(batch.size());
  }
  for (std::span<const Key> rest = candidates; !rest.empty();) {
    const auto batch = rest.first(std::min(rest.size(), kBatch));
    Publish(batch);
    publisher_->KeepAliveIfDue();
    rest = rest.subspan(batch.size());
  }
  Withdraw(gone);
  std::lock_guard lock(mutex_);
  withdrawn_ += gone.size();
  told_.notify_all();
}

void DiskRecords::Publish(std::span<const Key> keys) {
  std::vector<disk::DiskPage> found(keys.size());
  std::vector<uint8_t> in_pool(keys.size(), 0);
  tier_->Find(keys, found);
  pool_->ContainsMany(keys, in_pool);
  std::vector<HeldPage> pages;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (found[i].length == 0 || in_pool[i]) continue;
    pages.push_back(
        {keys[i], publisher_->Signed(DiskHoldings::RecordOf(found[i])), Hold::OnDisk()});
  }
  if (pages.empty()) return;
  std::vector<uint8_t> ok(pages.size());
  publisher_->Publish(pages, ok, Clock::now() + peer_timeout_);
  holdings_->Published(pages);
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < pages.size(); ++i) {
    if (ok[i]) continue;
    missed_ |= refused_.size() >= kMostQueued;
    if (refused_.size() < kMostQueued) refused_.push_back(pages[i].key);
  }
}

void DiskRecords::PublishLoaded(std::span<const PageAt> loaded) {
  std::vector<HeldPage> pages;
  std::vector<PageAt> held;
  for (const PageAt& at : loaded) {
    PagePin pin = pool_->HoldAt(at.offset, at.generation);
    if (!pin) continue;  // it has been evicted again
    pages.push_back(publisher_->Held(std::move(pin)));
    held.push_back(at);
  }
  if (pages.empty()) return;
  std::vector<uint8_t> ok(pages.size());
  publisher_->Publish(pages, ok, Clock::now() + peer_timeout_);
  // The record of the disk need not be there: a page may be back before that is published.
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < held.size(); ++i) {
    if (ok[i]) continue;
    missed_ |= unpublished_.size() >= kMostQueued;
    if (unpublished_.size() < kMostQueued) unpublished_.push_back(held[i]);
  }
}

void DiskRecords::Withdraw(std::span<const disk::DiskPage> gone) {
  std::vector<Victim> victims;
  for (; !gone.empty(); gone = gone.subspan(victims.size())) {
    victims.clear();
    for (const disk::DiskPage& page : gone.first(std::min(gone.size(), kBatch)))
      victims.push_back({.key = page.key,
                         .offset = 0,
                         .generation = page.sequence,
                         .length = page.length,
                         .published_to = FromNote(page.note),
                         .told = {}});
    std::vector<TimePoint> nobody_waits(victims.size());
    publisher_->Withdraw(victims, nobody_waits);
    publisher_->KeepAliveIfDue();
  }
}

void DiskRecords::AwaitWithdrawn(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const uint64_t all = dropped_;
  told_.wait_until(lock, deadline, [&] { return withdrawn_ >= all; });
}

}  // namespace peercache
