// ClearList: which pages of a disk were cleared. Pure; it is what superblocks carry.
//
// Every page has a sequence, from a counter that never goes back (sequence.h), and so has a clear.
// A page is dead when it is older than the last clear of its tag. Of the cluster's own name for a
// clear, its epoch (membership/clear_table.h), nothing is derived here: it is kept so that a node
// whose memory is gone still knows which clears its disk has seen.
//
// Bounded: beyond kMostTags the group of tags (base/tag.h) that has the most forgets its oldest
// clear, whose sequence is the floor for pages of the group. The cluster's own floors are kept
// beside, with their digests: what all members may have forgotten, which says nothing of pages.
// Costs: Dead is a search in a sorted array of at most kMostTags; none allocates but Add. 32 KiB of
// floors, and 24 bytes for each tag.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tag.h"

namespace peercache::disk {

struct ClearedTag {
  uint64_t tag = 0;
  uint64_t sequence = 0;
  uint64_t epoch = 0;
  friend bool operator==(const ClearedTag&, const ClearedTag&) = default;
};

class ClearList {
 public:
  static constexpr size_t kMostTags = 1000;

  // Of a group.
  struct Floor {
    uint64_t sequence = 0;  // pages up to this one are dead
    uint64_t epoch = 0;     // clears up to this one are not among the tags
    // Clears that all members may have forgotten, and that have been applied here.
    uint64_t members_epoch = 0, digest = 0;
    friend bool operator==(const Floor&, const Floor&) = default;
  };

  bool Dead(uint64_t tag, uint64_t sequence) const {
    if (sequence <= floors_[GroupOf(tag)].sequence) return true;
    const auto at = Find(tag);
    return at != tags_.end() && at->tag == tag && sequence <= at->sequence;
  }

  void Add(const ClearedTag& clear) {
    const auto at = Find(clear.tag);
    if (at != tags_.end() && at->tag == clear.tag) {
      at->sequence = std::max(at->sequence, clear.sequence);
      at->epoch = std::max(at->epoch, clear.epoch);
    } else {
      tags_.insert(at, clear);
    }
    while (tags_.size() > kMostTags) {
      const std::span<const ClearedTag> largest = LargestGroup();
      const auto oldest = std::ranges::min_element(largest, {}, &ClearedTag::sequence);
      AddFloor(GroupOf(oldest->tag), oldest->sequence, oldest->epoch);
    }
  }

  void Add(TagRange tags, uint64_t sequence, uint64_t epoch) {
    if (tags.one())
      Add({.tag = tags.first, .sequence = sequence, .epoch = epoch});
    else
      AddFloor(GroupOf(tags.first), sequence, epoch);
  }

  // Pages of every tag of the group up to `sequence` are dead.
  void AddFloor(uint64_t group, uint64_t sequence, uint64_t epoch) {
    Floor& floor = floors_[group];
    floor.sequence = std::max(floor.sequence, sequence);
    floor.epoch = std::max(floor.epoch, epoch);
    std::erase_if(tags_, [&](const ClearedTag& clear) {
      return GroupOf(clear.tag) == group && clear.sequence <= floor.sequence &&
             clear.epoch <= floor.epoch;
    });
  }

  // Clears from `since` on count as of `sequence`.
  void Renew(uint64_t since, uint64_t sequence) {
    for (Floor& floor : floors_)
      if (floor.sequence >= since) floor.sequence = sequence;
    for (ClearedTag& clear : tags_)
      if (clear.sequence >= since) clear.sequence = sequence;
  }

  // The clears of these have been applied here.
  void Forgotten(const ForgottenClears& clears) {
    Floor& floor = floors_[clears.group];
    if (clears.epoch < floor.members_epoch || clears.epoch == 0) return;
    floor.members_epoch = clears.epoch;
    floor.digest = clears.digest;
  }

  // What either knows.
  void Merge(const ClearList& other) {
    for (size_t group = 0; group < kTagGroups; ++group) {
      const Floor& floor = other.floors_[group];
      Forgotten({group, floor.members_epoch, floor.digest});
      if (floor.sequence != 0) AddFloor(group, floor.sequence, floor.epoch);
    }
    for (const ClearedTag& clear : other.tags_) {
      const Floor& floor = floors_[GroupOf(clear.tag)];
      if (clear.sequence > floor.sequence || clear.epoch > floor.epoch) Add(clear);
    }
  }

  // Of which clears nothing but this is known. The others are among the tags.
  std::vector<ForgottenClears> forgotten() const {
    std::vector<ForgottenClears> all;
    for (size_t group = 0; group < kTagGroups; ++group) {
      const Floor& floor = floors_[group];
      if (floor.members_epoch != 0 && floor.members_epoch >= floor.epoch)
        all.push_back({group, floor.members_epoch, floor.digest});
      else if (floor.epoch != 0)  // which ones is not known
        all.push_back({group, floor.epoch, 0});
    }
    return all;
  }

  const std::vector<ClearedTag>& tags() const { return tags_; }  // in their order
  const std::vector<Floor>& floors() const { return floors_; }   // by group
  friend bool operator==(const ClearList&, const ClearList&) = default;

 private:
  std::span<const ClearedTag> LargestGroup() const {
    std::span<const ClearedTag> largest;
    for (auto from = tags_.begin(); from != tags_.end();) {
      const auto to = std::find_if(from, tags_.end(), [group = GroupOf(from->tag)](const auto& c) {
        return GroupOf(c.tag) != group;
      });
      if (static_cast<size_t>(to - from) > largest.size()) largest = {from, to};
      from = to;
    }
    return largest;
  }
  std::vector<ClearedTag>::iterator Find(uint64_t tag) {
    return std::lower_bound(tags_.begin(), tags_.end(), tag,
                            [](const ClearedTag& clear, uint64_t t) { return clear.tag < t; });
  }
  std::vector<ClearedTag>::const_iterator Find(uint64_t tag) const {
    return std::lower_bound(tags_.begin(), tags_.end(), tag,
                            [](const ClearedTag& clear, uint64_t t) { return clear.tag < t; });
  }

  std::vector<Floor> floors_ = std::vector<Floor>(kTagGroups);
  std::vector<ClearedTag> tags_;
};

}  // namespace peercache::disk
