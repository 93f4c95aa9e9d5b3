// Room: how sets and loads from disk get their slots when the pool is nearly full, and how whoever
// makes room learns of it.
//
//   slowed    while less than half of the reserve is free, sets are paced, so that they do not use
//             up in a moment what has to last until evicted slots come back
//   waiting   whoever finds no slot frees those whose lease has passed, which costs it a look,
//             and otherwise waits for the upkeep, which frees slots of pages that nobody was told
//             of for a lease at once, and for the next slot to leave quarantine
//   refused   when none has come by the deadline; at once when the upkeep has freed none, and none
//             leaves quarantine before
//
// Loads are not slowed: an engine waits for them, and the drive is their pace. What they take is
// missing to sets, whose pace follows from what is free. Only sets are counted.
//
// Evicting and withdrawing is not done here but in the upkeep's thread, which is told: by whoever
// waits, and before that when much has been taken since it looked last. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "pool/pool.h"

namespace peercache {

// Of sets.
struct RoomStats {
  uint64_t paced = 0;     // pages whose set was slowed
  uint64_t waits = 0;     // pages whose set found no slot
  uint64_t hopeless = 0;  // of these, refused without waiting further
  Duration stalled{};     // by pacing and waiting, of all sets together
};

// Pages of one size that found no slot.
struct Unmet {
  size_t refused = 0;  // bytes; 0 when all are still waiting
  // Some are of a tenant that has less than its share of the pool (pool/shares.h).
  bool below_share = false;
};
using UnmetWishes = std::map<size_t, Unmet>;  // by the longest page of the size class

class Room {
 public:
  enum class For : uint8_t { kSet, kLoad };

  explicit Room(Pool* pool) : pool_(pool) {}

  // Pool::Reserve, but waits for a slot, at most until the deadline.
  Result<Reservation> Reserve(size_t length, TimePoint deadline, TenantNumber tenant = 0,
                              For what = For::kSet);
  // Pool::ReserveMany of what needs no waiting; an empty reservation is to be asked for alone.
  void ReserveFree(std::span<const size_t> lengths, std::span<Reservation> reservations,
                   For what = For::kSet);
  RoomStats stats() const;

  // The side that makes room. Waits until somebody asks, the slack is used up, slots may leave
  // quarantine, or `limit`; returns what was asked for since the last call. What the call before
  // has returned has been dealt with: whoever still waits for it looks at what is left to hope for.
  UnmetWishes AwaitWishes(Duration limit);
  // How many bytes sets may take before AwaitWishes returns.
  void SetSlack(size_t bytes);
  // Slots were freed: all who wait look again.
  void Freed();
  // How fast sets may take slots from now on, in bytes per second; 0: as fast as they can.
  void SetPace(double bytes_per_second);
  // Nobody waits any more, now and later.
  void Stop();

 private:
  bool Pace(size_t bytes, TimePoint deadline);
  void Took(size_t bytes);
  bool WaitForSlot(size_t length, TimePoint deadline, TenantNumber tenant, For what);
  void Refused(size_t length);
  void CountStall(TimePoint start);

  Pool* const pool_;
  std::mutex mutex_;
  std::condition_variable freed_, wanted_, pace_changed_;
  UnmetWishes wishes_;
  uint64_t rounds_ = 0;         // of freeing
  uint64_t asked_ = 0;          // answers of AwaitWishes with wishes
  uint64_t tried_ = 0;          // of these, those that were dealt with
  bool slack_is_used_ = false;  // and nobody was told
  std::atomic<int64_t> slack_{0};
  bool stop_ = false;
  std::atomic<double> pace_{0};  // written under the mutex
  TimePoint paced_until_{};      // when the sets admitted so far have used up their time
  std::atomic<uint64_t> paced_{0}, waits_{0}, hopeless_{0};
  std::atomic<int64_t> stalled_nanos_{0};
};

}  // namespace peercache
