// ClearTable: the clears that a node knows, as it tells them to others. Pure.
//
// A clear is a tag and an epoch. Of a tag the highest epoch counts: whoever has applied it has
// applied all before it. Epochs are numbers that only grow: the clearer takes one above every epoch
// that it knows, and above the wall clock, so that two clearers that do not know of each other take
// different ones. Nothing is compared with a clock: one that is an hour fast lends its lead to all
// clears that come later.
//
// An epoch that no clock can have led to is not believed: whoever said the highest one would leave
// none for the clears that follow.
//
// Two tables that tell each other all become equal, in whatever order: of every tag the higher
// epoch stays. Bounded: beyond kMostClears tags the oldest clear is forgotten, and its epoch is the
// floor from then on.
//
// What is forgotten has a digest: the sum of a hash of each clear. Who learns of another floor adds
// its own clears up to there to its own sum. If the sums are equal, the same clears are behind both
// floors, and nothing was missed. Else a forgotten clear may have been missed, and everything has
// to be dropped. The digest is of all clears that were ever forgotten, also of tags that have been
// cleared again since: so it follows from the order of clears, and two clears at once may leave two
// members with sums that differ by one clear. Each of them remembers the last clears that it has
// forgotten or replaced, and sees that it knows the one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "wire/clears.h"

namespace peercache {

// Whether its epochs can come from clocks of today, of which one may be years ahead. `wall` as in
// ClearTable::NextEpoch; one that was never set is no reason to believe nobody.
bool Plausible(const ClearState& state, uint64_t wall);

// The clears that both have applied: of each tag the lower epoch. None, if they have forgotten
// different ones.
ClearState KnownToBoth(const ClearState& a, const ClearState& b);

class ClearTable {
 public:
  // What has to be dropped before `heard` may be taken.
  struct News {
    std::vector<uint64_t> tags;
    bool all = false;
    bool empty() const { return tags.empty() && !all; }
  };
  News Missing(const ClearState& heard) const;
  void Take(const ClearState& heard);

  // An epoch for a clear that is made now. `wall`: nanoseconds since 1970, as far as they are
  // right.
  uint64_t NextEpoch(uint64_t wall) const;
  // Of the last clear of the tag; at least the floor.
  uint64_t EpochOf(uint64_t tag) const;
  ClearState state() const;
  size_t size() const { return epochs_.size(); }
  uint64_t floor() const { return floor_; }
  uint64_t forgotten() const { return forgotten_; }
  // Equal for equal tables; 0 for the empty one alone.
  uint64_t digest() const;

 private:
  // The sum of what is behind the floor, if that were this one.
  uint64_t ForgottenUpTo(uint64_t floor) const;
  // Two sums are of the same clears, but for two at most that this table knows.
  bool Explains(uint64_t ours, uint64_t theirs) const;
  void Retire(uint64_t hash);

  uint64_t floor_ = 0, forgotten_ = 0;
  std::map<uint64_t, uint64_t> epochs_;  // by tag; above the floor
  // Hashes of the last clears that were forgotten or replaced, as a ring.
  std::vector<uint64_t> retired_;
  size_t next_retired_ = 0;
};

}  // namespace peercache
