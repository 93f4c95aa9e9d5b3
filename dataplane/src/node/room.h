// Room: how sets get their slots when the pool is nearly full, and how whoever makes room learns of
// it.
//
//   slowed    while less than half of the reserve is free, sets are paced, so that they do not use
//             up in a moment what has to last until evicted slots come back
//   waiting   a set that finds no slot frees those whose lease has passed, which costs it a look,
//             and otherwise waits for the next one to come
//   refused   when none has come by the deadline, or none can: then at once
//
// Evicting and withdrawing is not done here but in the upkeep's thread, which is told. Reads never
// come here. Thread-safe.
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

struct RoomStats {
  uint64_t paced = 0;     // pages whose set was slowed
  uint64_t waits = 0;     // pages whose set found no slot
  uint64_t hopeless = 0;  // of these, refused without waiting further
  Duration stalled{};     // by pacing and waiting, of all sets together
};

// Pages that found no slot: longest page of their size class -> bytes that were refused, 0 when all
// are still waiting.
using UnmetWishes = std::map<size_t, size_t>;

class Room {
 public:
  // `lease`: the least that passes between an eviction and the use of its slot.
  Room(Pool* pool, Duration lease) : pool_(pool), lease_(lease) {}

  // Pool::Reserve, but waits for a slot, at most until the deadline.
  Result<Reservation> Reserve(size_t length, TimePoint deadline);
  // Pool::ReserveMany of what needs no waiting; an empty reservation is to be asked for alone.
  void ReserveFree(std::span<const size_t> lengths, std::span<Reservation> reservations);
  RoomStats stats() const;

  // The side that makes room. Waits until somebody asks, slots may leave quarantine, or `limit`;
  // returns what was asked for since the last call.
  UnmetWishes AwaitWishes(Duration limit);
  // Slots were freed: all who wait look again.
  void Freed();
  // How fast sets may take slots from now on, in bytes per second; 0: as fast as they can.
  void SetPace(double bytes_per_second);
  // Nobody waits any more, now and later.
  void Stop();

 private:
  bool Pace(size_t bytes, TimePoint deadline);
  bool WaitForSlot(size_t length, TimePoint deadline);
  void Refused(size_t length);
  void CountStall(TimePoint start);

  Pool* const pool_;
  const Duration lease_;
  std::mutex mutex_;
  std::condition_variable freed_, wanted_, pace_changed_;
  UnmetWishes wishes_;
  uint64_t rounds_ = 0;  // of freeing
  bool stop_ = false;
  std::atomic<double> pace_{0};  // written under the mutex
  TimePoint paced_until_{};      // when the sets admitted so far have used up their time
  std::atomic<uint64_t> paced_{0}, waits_{0}, hopeless_{0};
  std::atomic<int64_t> stalled_nanos_{0};
};

}  // namespace peercache
