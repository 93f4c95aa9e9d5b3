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
// epoch stays. Bounded: beyond kMostClears tags the group (base/tag.h) that has the most forgets
// its oldest clear, whose epoch is the floor of the group from then on. Of other groups nothing is
// forgotten, so who clears many tags makes nobody else's members drop pages.
//
// What is forgotten of a group has a digest: the sum of a hash of each clear. Who learns of another
// floor adds its own clears up to there to its own sum. If the sums are equal, the same clears are
// behind both floors, and nothing was missed. Else a forgotten clear may have been missed, and all
// pages of the group have to be dropped. The digest is of all clears that were ever forgotten, also
// of tags that have been cleared again since: so it follows from the order of clears, and two
// clears at once may leave two members with sums that differ by one clear. Each of them remembers
// the last clears that it has forgotten or replaced, and sees that it knows the one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "wire/clears.h"

namespace peercache {

// Whether its epochs can come from clocks of today, of which one may be years ahead. `wall` as in
// ClearTable::NextEpoch; one that was never set is no reason to believe nobody.
bool Plausible(const ClearState& state, uint64_t wall);

// The clears that both have applied: of each tag the lower epoch. None of a group of which they
// have forgotten different ones.
ClearState KnownToBoth(const ClearState& a, const ClearState& b);

class ClearTable {
 public:
  // What has to be dropped before `heard` may be taken.
  struct News {
    std::vector<uint64_t> tags, groups;
    bool empty() const { return tags.empty() && groups.empty(); }
  };
  News Missing(const ClearState& heard) const;
  void Take(const ClearState& heard);

  // An epoch for a clear that is made now. `wall`: nanoseconds since 1970, as far as they are
  // right.
  uint64_t NextEpoch(uint64_t wall) const;
  // Of the last clear of the tag; at least the floor of its group.
  uint64_t EpochOf(uint64_t tag) const;
  ClearState state() const;
  size_t size() const { return epochs_.size(); }
  std::vector<ForgottenClears> forgotten() const;  // as in ClearState
  ForgottenClears Forgotten(uint64_t group) const;
  // Equal for equal tables; 0 for the empty one alone.
  uint64_t digest() const;

 private:
  struct Group {
    ForgottenClears forgotten;
    // Hashes of the last clears that were forgotten or replaced, as a ring.
    std::vector<uint64_t> retired = {};
    size_t next_retired = 0;
    void Retire(uint64_t hash);
    // A sum of theirs is of the same clears as `ours`, but for two at most that this table knows.
    bool Explains(uint64_t ours, uint64_t theirs) const;
  };
  Group& GroupAt(uint64_t group);
  bool Missed(const ForgottenClears& theirs) const;
  // Forgets what is not above the floor of the group. `sum`: it is not in the digest yet.
  void Forget(Group* group, bool sum);
  void ForgetOldest();

  std::map<uint64_t, uint64_t> epochs_;  // by tag; above the floor of its group
  std::map<uint64_t, Group> groups_;     // those of which something is forgotten or replaced
};

}  // namespace peercache
