// Mover: a node that leaves has its most-read pages taken over by the peers that stay.
//
// It offers them (wire/messages.h); what is offered stays where it is and is read by the peer as by
// any reader. A page that was taken is held by two nodes, until this one voids all its records
// together (Upkeep::Disown), so readers find it all the time. Peers that do not know the message,
// leave themselves or fail are left alone; what they were to take goes to the others.
//
//   Mover(...).Move(budget, deadline);     // returns when nothing is left to do, or it is time
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "node/count/counters.h"
#include "node/drain/move_plan.h"
#include "node/peer/peers.h"
#include "node/peer/views.h"
#include "pool/pool.h"

namespace peercache {

class Mover {
 public:
  // `incarnation` of this node; `stall`: longest that a peer may take to answer.
  Mover(uint64_t incarnation, Duration stall, const Pool* pool, Peers* peers, const Views* views,
        Counters* counters);

  // Moves at most `budget` bytes, until `deadline`; counts and logs what has become of them.
  void Move(uint64_t budget, TimePoint deadline);

 private:
  // A peer, and what it is to take.
  struct Lane {
    PeerRef peer;
    uint64_t room = 0;
    std::vector<OfferItem> queue;  // from `next` on
    size_t next = 0;
    size_t offered = 0;  // items that are on offer now
    uint64_t batch = 0;
    bool alive = false;

    std::span<const OfferItem> rest() const { return std::span(queue).subspan(next); }
    std::span<const OfferItem> offer() const { return rest().first(offered); }
  };

  // The active members, and how much room each has, as far as they answer.
  std::vector<Lane> Ask(TimePoint deadline);
  // Returns false when all that could be done is done.
  bool Round(std::vector<Lane>* lanes, TimePoint deadline);
  // Makes an offer to each of the lanes.
  void Offer(std::span<Lane* const> lanes, TimePoint deadline);
  void Assign(std::vector<Lane>* lanes, std::span<const OfferItem> items);
  void Count(const Lane& lane, std::span<const uint8_t> outcomes);

  const Duration stall_;
  const Pool* const pool_;
  Peers* const peers_;
  const Views* const views_;
  Counters* const counters_;
  uint64_t next_batch_;
};

}  // namespace peercache
