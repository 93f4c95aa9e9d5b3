// ClearList: which pages of a disk were cleared. Pure; it is what superblocks carry.
//
// Every page has a sequence, from a counter that never goes back (sequence.h), and so has a clear.
// A page is dead when it is older than the last clear of its tag. Of the cluster's own name for a
// clear, its epoch (membership/clear_table.h), nothing is derived here: it is kept so that a node
// whose memory is gone still knows which clears its disk has seen.
//
// Bounded: beyond kMostTags the oldest clear is forgotten, and its sequence is the floor for pages
// of all tags. The cluster's own floor is kept beside, with its digest: what all members may have
// forgotten, which says nothing of pages. Costs: Dead is a search in a sorted array of at most
// kMostTags; none allocates but Add.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace peercache::disk {

struct ClearedTag {
  uint64_t tag = 0;
  uint64_t sequence = 0;
  uint64_t epoch = 0;
  friend bool operator==(const ClearedTag&, const ClearedTag&) = default;
};

// Up to which epoch members have forgotten clears, and which ones: ClearState has it.
struct ForgottenClears {
  uint64_t epoch = 0;
  uint64_t digest = 0;
  friend bool operator==(const ForgottenClears&, const ForgottenClears&) = default;
};

class ClearList {
 public:
  static constexpr size_t kMostTags = 1000;

  bool Dead(uint64_t tag, uint64_t sequence) const {
    if (sequence <= floor_sequence_) return true;
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
      const auto oldest =
          std::min_element(tags_.begin(), tags_.end(),
                           [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
      AddFloor(oldest->sequence, oldest->epoch);
    }
  }

  // Pages of every tag up to `sequence` are dead.
  void AddFloor(uint64_t sequence, uint64_t epoch) {
    floor_sequence_ = std::max(floor_sequence_, sequence);
    floor_epoch_ = std::max(floor_epoch_, epoch);
    std::erase_if(tags_, [&](const ClearedTag& clear) {
      return clear.sequence <= floor_sequence_ && clear.epoch <= floor_epoch_;
    });
  }

  // The clears of these have been applied here.
  void Forgotten(const ForgottenClears& clears) {
    if (clears.epoch >= forgotten_.epoch && clears.epoch != 0) forgotten_ = clears;
  }

  // What either knows.
  void Merge(const ClearList& other) {
    Forgotten(other.forgotten_);
    AddFloor(other.floor_sequence_, other.floor_epoch_);
    for (const ClearedTag& clear : other.tags_)
      if (clear.sequence > floor_sequence_ || clear.epoch > floor_epoch_) Add(clear);
  }

  const std::vector<ClearedTag>& tags() const { return tags_; }  // in their order
  uint64_t floor_sequence() const { return floor_sequence_; }
  uint64_t floor_epoch() const { return floor_epoch_; }
  const ForgottenClears& forgotten() const { return forgotten_; }
  friend bool operator==(const ClearList&, const ClearList&) = default;

 private:
  std::vector<ClearedTag>::iterator Find(uint64_t tag) {
    return std::lower_bound(tags_.begin(), tags_.end(), tag,
                            [](const ClearedTag& clear, uint64_t t) { return clear.tag < t; });
  }
  std::vector<ClearedTag>::const_iterator Find(uint64_t tag) const {
    return std::lower_bound(tags_.begin(), tags_.end(), tag,
                            [](const ClearedTag& clear, uint64_t t) { return clear.tag < t; });
  }

  uint64_t floor_sequence_ = 0;
  uint64_t floor_epoch_ = 0;
  ForgottenClears forgotten_;
  std::vector<ClearedTag> tags_;
};

}  // namespace peercache::disk
