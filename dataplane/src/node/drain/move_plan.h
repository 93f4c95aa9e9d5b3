// MovePlan: which pages a node that leaves offers to its peers, and which peer is offered which.
// Pure; mover.h carries it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "wire/messages.h"

namespace peercache {

// A page of the pool, as far as it matters here: pools have millions.
struct MovePage {
  OfferItem item;
  uint64_t last_use = 0;  // of the pool's count of uses
};

// Leaves the `most` pages that were read most.
void KeepHottest(size_t most, std::vector<MovePage>* pages);
// The pages that were read most, most-read first, of together at most `budget` bytes. Of pages that
// were read as often, the one that was used last goes first: of a prompt that engines of this node
// have read, so its first pages do (Pool::FindMany); peers read in any order.
std::vector<OfferItem> ChooseForMove(std::vector<MovePage> pages, uint64_t budget);

// A peer that takes pages, and the room that it has for them.
struct MovePeer {
  uint64_t node = 0;
  uint64_t room = 0;
};
// For each item the index of its peer, by a ring on which peers weigh what they have room for; on
// one where all weigh the same when none has any.
std::vector<size_t> SpreadOver(std::span<const MovePeer> peers, std::span<const OfferItem> items);

// What all offers of a node together may have its peers read at once: one network port sends this
// much in a small part of a lease, and it serves its other readers meanwhile.
constexpr uint64_t kUnderWay = 64 << 20;
// How many bytes each of `idle` peers may be offered now, while `on_offer` are with others.
uint64_t ShareOfOffers(uint64_t on_offer, size_t idle);
// How many of the first items make one offer of `most` bytes: one at least.
size_t OneOffer(std::span<const OfferItem> items, uint64_t most);

}  // namespace peercache
