// Upkeep: the node's housekeeping threads. One makes room before sets need it, as room_plan.h says,
// and carries out clears; the other keeps the directory repaired and fresh, and tells it of
// promoted replicas. Everything that must wait for other nodes outside an engine's call happens
// here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/tag.h"
#include "node/count/counters.h"
#include "node/owner/publisher.h"
#include "node/owner/room.h"
#include "node/owner/room_plan.h"
#include "node/owner/tier_behind.h"
#include "node/peer/views.h"
#include "node/read/replicas.h"
#include "pool/pool.h"

namespace peercache {

struct UpkeepOptions {
  Duration tick = milliseconds(20);
  Duration lease{};
  Watermarks watermarks;
};

class Upkeep {
 public:
  // `synced` is told the view for which every record is in place. `behind`: null without a tier
  // behind the pool.
  Upkeep(UpkeepOptions options, Pool* pool, Replicas* replicas, Shard* shard, Publisher* publisher,
         const Views* views, Room* room, std::function<void(const View&)> synced,
         TierBehind* behind = nullptr);
  ~Upkeep();

  // Takes the pages under `tags` out of service at once; their slots are freed in the background.
  // Returns how many can still be found: in use (being sent or published), or with
  // records that are not withdrawn yet. Ask again until there are none.
  size_t Clear(TagRange tags);
  // Ends the keeping of the directory and voids every record of this node, before it goes away: a
  // pass that came later would publish them all again.
  void Disown();
  // Slots that upkeep keeps free or on their way to be.
  size_t reserve_bytes() const { return reserve_bytes_; }

 private:
  void RunRoom();
  void RunDirectory();
  void MakeRoom(const UnmetWishes& wishes);
  // `spare`: as of Pool::TakeVictims.
  void Evict(size_t bytes, size_t length, bool spare = true);
  void RetireCleared();
  void PublishPromoted();
  // Withdraws and puts into quarantine; when, on average, their slots will be free.
  TimePoint Retire(std::span<const Victim> victims);
  // Frees the slots whose rest is over, and tells who waits for them.
  void ReclaimFreed();

  const UpkeepOptions options_;
  Pool* const pool_;
  Replicas* const replicas_;
  Shard* const shard_;
  Publisher* const publisher_;
  const Views* const views_;
  Room* const room_;
  const std::function<void(const View&)> synced_;
  TierBehind* const behind_;
  std::mutex cleared_mutex_;
  std::vector<Victim> cleared_;
  size_t unwithdrawn_ = 0;  // cleared pages whose records may still be found
  RoomPlan plan_;           // of the room thread, as is the next
  bool freed_ = false;      // slots, since it looked last
  std::atomic<size_t> reserve_bytes_{0};
  std::atomic<bool> stop_{false}, disown_{false};
  std::thread room_thread_, directory_thread_;
};

}  // namespace peercache
