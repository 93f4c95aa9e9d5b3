// Which of several holders of a page a reader is sent to, all else being equal: each pair of reader
// and key has its own random order of them, which spreads readers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/key.h"
#include "wire/record.h"

namespace peercache {

inline uint64_t Preference(uint64_t reader, uint64_t node, const Key& key) {
  uint64_t x = (reader * 0x9e3779b97f4a7c15) ^ (node * 0xc2b2ae3d27d4eb4f) ^ key.Word(3);
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

// Of the holders of one key, the one that its reader prefers, one with the page in memory before
// all others, becomes *best, whose node is 0 before the first. The rest go to `others`, if that is
// not null, as records of `index`.
class Preferred {
 public:
  Preferred(uint64_t reader, const Key& key, uint32_t index, Record* best,
            std::vector<OtherRecord>* others)
      : reader_(reader), key_(key), index_(index), best_(best), others_(others) {}

  void Offer(const Record& record) {
    const uint64_t preference = Preference(reader_, record.node, key_);
    const bool better = best_->node == 0 || record.tier < best_->tier ||
                        (record.tier == best_->tier && preference > preference_);
    if (others_ != nullptr && best_->node != 0)
      others_->push_back({index_, 0, better ? *best_ : record});
    if (!better) return;
    preference_ = preference;
    *best_ = record;
  }

 private:
  const uint64_t reader_;
  const Key& key_;
  const uint32_t index_;
  Record* const best_;
  std::vector<OtherRecord>* const others_;
  uint64_t preference_ = 0;
};

}  // namespace peercache
