// DiskRecords: what the directory has to hear of the disk tier.
//
//   evicted from the pool   of a page that is on disk a record of the disk is published. Its
//                           generation is the page's sequence, which is higher than the pool's was
//   stored                  the same, unless the pool has the page: found by recovery, or evicted
//                           meanwhile
//   dropped from disk       its record is withdrawn; readers that come nevertheless find nothing
//   promoted                the pool's record, of a higher generation, replaces it
//   back with their drive   a pass of repair publishes what was not found when its turn came
//
// Records of the disk need no lease, so nobody waits for any of this. One thread publishes and
// withdraws, in this order, and looks again after it has published: so what goes meanwhile is
// withdrawn after it was published.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "disk/disk_tier.h"
#include "node/disk/loader.h"
#include "node/owner/publisher.h"
#include "node/owner/tier_behind.h"

namespace peercache {

class DiskRecords final : public TierBehind, public disk::PageObserver {
 public:
  explicit DiskRecords(Duration peer_timeout) : peer_timeout_(peer_timeout) {}
  // What the tier tells before is kept. All outlive the calls of the upkeep.
  void Start(disk::DiskTier* tier, Holdings* holdings, Loader* loader, Pool* pool);
  // Before the upkeep begins.
  void Serve(Publisher* publisher) { publisher_ = publisher; }

  void Evicted(std::span<const Victim> victims) override;
  void TellDirectory() override;
  void Stored(std::span<const disk::DiskPage> pages) override;
  void Dropped(std::span<const disk::DiskPage> pages) override;
  void AwaitTold() override;
  void Back() override;

  // Records of these were sent, though they have gone.
  void Gone(std::span<const disk::DiskPage> pages);
  // Until no record is found of pages that were dropped before the call, or the deadline.
  void AwaitWithdrawn(TimePoint deadline);

 private:
  // Pages beyond these are left to a pass of repair. Who drops many pages waits while so many have
  // gone.
  static constexpr size_t kMostQueued = size_t{1} << 20;

  // Under the lock.
  void Enqueue(const Key& key);
  void Publish(std::span<const Key> keys);
  void PublishLoaded(std::span<const PageAt> loaded);
  void Withdraw(std::span<const disk::DiskPage> gone);

  const Duration peer_timeout_;
  disk::DiskTier* tier_ = nullptr;
  Holdings* holdings_ = nullptr;
  Loader* loader_ = nullptr;
  Pool* pool_ = nullptr;
  Publisher* publisher_ = nullptr;

  std::mutex mutex_;
  std::condition_variable told_, drained_;
  std::vector<Key> candidates_;       // on disk, perhaps not in the pool
  std::vector<Key> refused_;          // by their shards: candidates again, later
  std::vector<PageAt> unpublished_;   // pages that have come back, the same
  TimePoint again_at_{};              // when
  bool missed_ = false;               // some of these
  std::vector<disk::DiskPage> gone_;  // whose records may be found
  uint64_t dropped_ = 0;              // pages that ever were in gone_
  uint64_t withdrawn_ = 0;            // of these, in their order
};

}  // namespace peercache
